package grid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// passes is a cluster whose garbage collector passes over what grids leave.
func passes() settings { return settings{Config: gridtest.Config{AutoReady: true, Passes: true}} }

// tillInShops is the grid in two units.
func tillInShops(c *gridtest.Cluster) {
	shops("north", "south")(c)
	update(c, tillGrid)
}

// asked are the calls that read, since a time.
func (w *world) asked(since time.Time) []gridtest.Call {
	return w.Calls(func(c gridtest.Call) bool { return c.Verb == gridtest.Live && !c.At.Before(since) })
}

// What the garbage collector passes over goes all the same, after it had its
// time; then nothing is asked or written any more.
func TestWhatAGridLeaves(t *testing.T) {
	run(t, passes(), tillInShops, func(w *world) {
		w.soon()
		w.Remove(till)
		w.pass(50 * time.Second)
		w.names("Deployment", "till-north", "till-south") // the collector's minute
		w.pass(time.Minute)
		w.names("Deployment")
		w.names(plan.RevisionKind)
		w.event("till: Removed: deleted 3 objects of this grid, which is no more, for the garbage collector passed over them: controllerrevision default/")
		since := time.Now()
		w.quiet()
		if list := w.asked(since); len(list) > 0 {
			t.Errorf("in an hour without an orphan it was asked for %v", list)
		}
	})
}

// A grid that was deleted and made anew has its children: those of the one
// before were in the way, and nobody else took them away.
func TestAGridMadeAnew(t *testing.T) {
	run(t, passes(), tillInShops, func(w *world) {
		w.soon()
		before := w.at(deployment("till-north"), "metadata.uid")
		w.Remove(till)
		update(w.Cluster, tillGrid, "image: v1", "image: v2")
		w.pass(2 * time.Minute)
		if w.at(deployment("till-north"), "metadata.uid") == before {
			t.Error("till-north is the earlier grid's")
		}
		w.is(till, "status.readyUnits", 2)
		w.is(deployment("till-north"), "metadata.ownerReferences", fmt.Sprint([]any{plan.Object{
			"apiVersion": "superedge.io/v1", "blockOwnerDeletion": true, "controller": true, "kind": "DeploymentGrid", "name": "till", "uid": w.at(till, "metadata.uid"),
		}}))
		w.quiet()
	})
}

// Who takes over deletes what was left before, after a time of its own.
func TestASuccessorFindsWhatWasLeft(t *testing.T) {
	run(t, passes(), tillInShops, func(w *world) {
		w.soon()
		w.stop()
		w.Remove(till)
		w.lead(passes())
		w.pass(50 * time.Second)
		w.names("Deployment", "till-north", "till-south")
		w.pass(time.Minute)
		w.names("Deployment")
	})
}

// What --cascade=orphan leaves stays, however late the mirror hears of it.
func TestChildrenThatAreToStay(t *testing.T) {
	for _, lag := range []time.Duration{0, 10 * time.Second} {
		s := passes()
		s.Lag = lag
		run(t, s, tillInShops, func(w *world) {
			w.pass(time.Minute)
			w.RemoveAlone(till)
			w.quiet()
			w.names("Deployment", "till-north", "till-south")
			w.is(deployment("till-north"), "metadata.ownerReferences", nil)
		})
	}
}

// A child that is let go of while it is about to be deleted stays.
func TestAChildLetGoOfAtTheLastMoment(t *testing.T) {
	var c *gridtest.Cluster
	s := passes()
	s.Before = func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb == gridtest.Delete && ref == deployment("till-north") {
			c.Edit(ref, func(o plan.Object) { delete(o["metadata"].(plan.Object), "ownerReferences") })
		}
		return nil
	}
	run(t, s, func(cluster *gridtest.Cluster) { c = cluster; tillInShops(c) }, func(w *world) {
		w.soon()
		w.Remove(till)
		w.pass(10 * time.Minute)
		w.names("Deployment", "till-north")
		w.noEvent("Failed")
	})
}

// blind is a mirror that does not see one object.
type blind struct {
	*gridtest.Cluster
	hidden plan.Ref
}

func (b blind) Get(kind, namespace, name string) map[string]any {
	if (plan.Ref{Kind: kind, Namespace: namespace, Name: name}) == b.hidden {
		return nil
	}
	return b.Cluster.Get(kind, namespace, name)
}

// The API server has the last word: what a mirror does not see may be there.
// That is asked once a minute, however many children there are, and nothing is
// deleted.
func TestAGridThatTheMirrorDoesNotSee(t *testing.T) {
	run(t, passes(), tillInShops, func(w *world) {
		w.soon()
		w.stop()
		s := passes()
		s.mirror = func(c *gridtest.Cluster) grid.Mirror { return blind{c, till} }
		w.lead(s)
		since := time.Now()
		w.pass(time.Hour)
		w.names("Deployment", "till-north", "till-south")
		if n := len(w.asked(since)); n < 30 || n > 60 {
			t.Errorf("asked %d times in an hour", n)
		}
		if list := w.written(since); len(list) > 0 {
			t.Errorf("written: %v", list)
		}
	})
}

// While the API server does not say that a grid is gone nothing is deleted.
func TestNoAnswerIsNotGone(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	s := passes()
	s.Before = func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb == gridtest.Live && ref == till && away.Load() {
			return errors.New("the API server is away")
		}
		return nil
	}
	run(t, s, tillInShops, func(w *world) {
		w.soon()
		w.Remove(till)
		since := time.Now()
		w.pass(10 * time.Minute)
		w.names("Deployment", "till-north", "till-south")
		if list := w.written(since); len(list) > 0 {
			t.Errorf("written: %v", list)
		}
		away.Store(false)
		w.pass(2 * time.Minute)
		w.names("Deployment")
	})
}

// Much that is left costs no more than a page of writes at a time, and what cannot
// be deleted keeps nothing else.
func TestMuchThatIsLeft(t *testing.T) {
	var units []string
	for i := range 450 {
		units = append(units, fmt.Sprintf("u%03d", i))
	}
	s := passes()
	s.Before = func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb == gridtest.Delete && strings.HasPrefix(ref.Name, "till-u00") {
			return errors.New("no")
		}
		return nil
	}
	run(t, s, func(c *gridtest.Cluster) { shops(units...)(c); update(c, tillGrid) }, func(w *world) {
		w.pass(time.Minute)
		w.Remove(till)
		for range 12 {
			since := time.Now()
			w.pass(29 * time.Second)
			if n := len(w.Calls(func(c gridtest.Call) bool { return !c.At.Before(since) })); n > 201 {
				t.Errorf("%d calls in half a minute", n)
			}
			w.pass(time.Second)
		}
		if list := w.Names("Deployment"); len(list) != 10 {
			t.Errorf("left are %v", list)
		}
	})
}
