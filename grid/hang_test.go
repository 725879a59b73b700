package grid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// evilGrids are grids of a namespace whose writes hang, with such an image.
func evilGrids(c *gridtest.Cluster, n int, image string) {
	for i := range n {
		update(c, tillGrid, "name: till,", fmt.Sprintf("name: till%d, namespace: evil,", i), "v1", image)
	}
}

// count is how many Deployments have a name that begins so.
func (w *world) count(prefix string) (n int) {
	for _, name := range w.Names("Deployment") {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// Writes that hang in one namespace, as its own webhook can have all of them do, hold up
// nobody's grids elsewhere, however large they are, and go on when they can.
func TestWritesThatHangHoldUpNobodyElse(t *testing.T) {
	for name, tc := range map[string]struct {
		image string
		grids int
	}{
		"small": {"v1", 40},
		"large": {strings.Repeat("v", 1<<20), 1},
	} {
		t.Run(name, func(t *testing.T) {
			var well chan struct{}
			before := func(ctx context.Context, verb gridtest.Verb, ref plan.Ref) error {
				if ref.Namespace == "evil" && (verb == gridtest.Apply || verb == gridtest.WriteStatus) {
					select {
					case <-well:
					case <-ctx.Done():
					}
				}
				return nil
			}
			run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}, parallel: 16}, func(c *gridtest.Cluster) {
				well = make(chan struct{})
				shops("a", "b", "c", "d")(c)
				evilGrids(c, tc.grids, tc.image)
			}, func(w *world) {
				w.pass(10 * time.Second) // the evil ones have begun
				update(w.Cluster, tillGrid, "name: till,", "name: mine,")
				w.pass(5 * time.Second)
				if n := w.count("mine-"); n != 4 {
					t.Errorf("%d of 4 children are there, with others' writes hanging", n)
				}
				close(well)
				w.pass(time.Minute)
				if n := w.count("till"); n < 4*tc.grids {
					t.Errorf("%d of %d children are there after the writes went on", n, 4*tc.grids)
				}
			})
		})
	}
}

// Large writes of others wait for one of those that hang, and not for all.
func TestLargeWritesTakeTurns(t *testing.T) {
	const hang = 30 * time.Second
	large := strings.Repeat("v", 300<<10)
	before := func(ctx context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if ref.Namespace != "evil" || verb != gridtest.Apply {
			return nil
		}
		select {
		case <-time.After(hang):
		case <-ctx.Done():
		}
		return errors.New("the webhook did not answer")
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}, parallel: 16}, func(c *gridtest.Cluster) {
		shops("a")(c)
		evilGrids(c, 5, large)
	}, func(w *world) {
		w.pass(10 * time.Second)
		update(w.Cluster, tillGrid, "name: till,", "name: mine,", "v1", large)
		w.pass(2*hang + 5*time.Second) // its revision, and its child
		w.names("Deployment", "mine-a")
	})
}

// What a grid has left where deletions hang, or where nothing can be written for others'
// writes do, keeps nobody else's waiting, nor what the mirror does not show.
func TestDeletionsThatHangHoldUpNobodyElse(t *testing.T) {
	var units []string
	for i := range 40 {
		units = append(units, fmt.Sprintf("u%02d", i))
	}
	for name, tc := range map[string]struct {
		verb gridtest.Verb
		only string
		left int // of the children where it hangs
	}{
		"deletions":    {gridtest.Delete, "", 40},
		"one deletion": {gridtest.Delete, "till7-u00", 1},
		"all places":   {gridtest.Apply, "", 40},
	} {
		t.Run(name, func(t *testing.T) {
			var hangs atomic.Bool
			s := passes()
			s.Lag, s.parallel = 10*time.Second, 16
			s.Before = func(ctx context.Context, v gridtest.Verb, ref plan.Ref) error {
				if ref.Namespace != "evil" || v != tc.verb || tc.only != "" && ref.Name != tc.only || !hangs.Load() {
					return nil
				}
				select {
				case <-time.After(30 * time.Second):
				case <-ctx.Done():
				}
				return errors.New("the webhook did not answer")
			}
			run(t, s, func(c *gridtest.Cluster) {
				shops(units...)(c)
				evilGrids(c, 8, "v1")
				update(c, tillGrid, "name: till,", "name: lost, namespace: z,")
			}, func(w *world) {
				w.pass(time.Minute)
				hangs.Store(true)
				evilGrids(w.Cluster, 7, "v2")
				w.Remove(plan.Ref{Kind: "DeploymentGrid", Namespace: "evil", Name: "till7"})
				w.pass(2 * time.Minute) // the first deletion has begun, or is to
				update(w.Cluster, tillGrid, "name: till,", "name: mine,")
				w.Rewatch()
				w.pass(2 * time.Second)
				w.Remove(deployment("mine-u00"))
				w.Rewatch()
				w.Remove(plan.Ref{Kind: "DeploymentGrid", Namespace: "z", Name: "lost"})
				w.pass(4 * time.Minute)
				if w.Object(deployment("mine-u00")) == nil {
					t.Error("a child that the mirror never saw was not asked for")
				}
				if n := w.count("lost-"); n > 0 {
					t.Errorf("%d children of a grid that is no more are left", n)
				}
				if n := w.count("till7-"); n != tc.left {
					t.Errorf("%d children are left where it hangs, want %d", n, tc.left)
				}
				hangs.Store(false)
				w.pass(5 * time.Minute)
				if n := w.count("till7-"); n > 0 {
					t.Errorf("%d children are left where deletions hung", n)
				}
			})
		})
	}
}
