package grid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
