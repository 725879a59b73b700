package grid_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// standsStill is a rollout of v2 that stands still at its first wave, unit a: every unit
// ran v1 before.
func standsStill(t *testing.T, paused bool, test func(w *world)) {
	t.Helper()
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.soon()
		for _, unit := range []string{"a", "b", "c"} {
			w.RollOut(deployment("till-" + unit))
		}
		w.soon()
		if paused {
			update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, paused: true", "image: v1", "image: v2")
			w.soon()
		} else {
			update(w.Cluster, inWaves, "image: v1", "image: v2")
			w.pass(15 * time.Minute)
			w.event("RolloutStopped: unit a is not ready")
		}
		test(w)
	})
}

// What the units have that wait is what a new unit begins with while a rollout stands still,
// and what a child is made anew of; the change comes in its turn, once the rollout goes on.
func TestNobodyBeginsWithWhatIsStopped(t *testing.T) {
	for name, paused := range map[string]bool{"stopped": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			standsStill(t, paused, func(w *world) {
				shops("0", "z")(w.Cluster)
				w.Remove(deployment("till-b"))
				w.soon()
				if got := w.running("0", "b", "z"); got != "v1v1v1" {
					t.Errorf("new units and one made anew run %s", got)
				}
				w.is(deployment("till-0"), "spec.template.spec.nodeSelector.site", "0")
				w.stop()
				w.lead(settings{})
				w.Remove(deployment("till-z"))
				w.soon()
				if got := w.running("z"); got != "v1" {
					t.Errorf("another replica leads, and a unit made anew runs %s", got)
				}
				for _, unit := range []string{"0", "b", "z"} {
					w.RollOut(deployment("till-" + unit))
				}
				w.soon()
				w.quiet()
				// It goes on, and comes to them as to the others.
				update(w.Cluster, inWaves, "image: v1", "image: v3")
				for range 10 {
					for _, unit := range []string{"0", "a", "b", "c", "z"} {
						w.RollOut(deployment("till-" + unit))
					}
					w.pass(time.Minute)
				}
				if got := w.running("0", "a", "b", "c", "z"); got != "v3v3v3v3v3" {
					t.Errorf("in the end they run %s", got)
				}
				w.event("RolloutComplete")
			})
		})
	}
}

// While the pilot's wave goes, or soaks, a new unit waits for its turn as all others do, and
// one whose turn is over gets the change at once.
func TestANewUnitWaitsForItsTurn(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("b", "c", "d")(c)
		update(c, inWaves, "maxUnits: 1", "order: [c]")
	}, func(w *world) {
		w.pass(time.Hour)
		update(w.Cluster, inWaves, "maxUnits: 1", "order: [c]", "image: v1", "image: v2")
		w.soon()
		shops("a")(w.Cluster)
		w.pass(40 * time.Second)
		if got := w.running("a", "b", "c", "d"); got != "v1v1v2v1" {
			t.Errorf("while the pilot soaks, the units run %s", got)
		}
		w.pass(time.Minute)
		if got := w.running("a", "b", "c", "d"); got != "v2v1v2v1" {
			t.Errorf("after the pause the units run %s", got)
		}
		w.Remove(deployment("till-c"))
		w.soon()
		if got := w.running("b", "c"); got != "v1v2" {
			t.Errorf("made anew, the pilot runs %s", got)
		}
	})
}

// A release that is not ready anywhere is still what the units have: a new one gets no other
// while the rollout is paused.
func TestTheFirstReleaseIsAllThereIs(t *testing.T) {
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves, "maxUnits: 1", "maxUnits: 1, paused: true")
	}, func(w *world) {
		w.soon()
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, paused: true", "image: v1", "image: v2")
		shops("c")(w.Cluster)
		w.soon()
		if got := w.running("a", "b", "c"); got != "v1v1v1" {
			t.Errorf("the units run %s", got)
		}
	})
}

// Where what the others have is not to be had, nothing is made in its place, and the grid
// says so; once it is back the unit has it.
func TestWithoutWhatTheOthersHaveNothingIsMade(t *testing.T) {
	standsStill(t, true, func(w *world) {
		names := slices.DeleteFunc(w.Names(plan.RevisionKind), func(name string) bool { return name == w.at(till, "status.revision") })
		ref := plan.Ref{Kind: plan.RevisionKind, Namespace: "default", Name: names[0]}
		kept := w.Object(ref)
		w.Remove(ref)
		shops("z")(w.Cluster)
		w.pass(2 * time.Minute)
		if w.Object(deployment("till-z")) != nil {
			t.Errorf("the unit runs %s", w.running("z"))
		}
		status, message := w.condition(till, "Valid")
		if want := "unit z: the unit is to begin with what most units have that wait for the change, until that comes to it; no ControllerRevision has that: restore it"; status != "False" || !strings.HasPrefix(message, want) {
			t.Errorf("Valid is %q: %s", status, message)
		}
		w.event("Refused: deploymentgrid default/till: unit z: the unit is to begin with")
		w.UpdateObject("kubectl", kept)
		w.soon()
		if got := w.running("z"); got != "v1" {
			t.Errorf("it is back, and the unit runs %s", got)
		}
	})
}

// It is kept, however many changes come that never go out.
func TestWhatTheOthersHaveIsKept(t *testing.T) {
	standsStill(t, true, func(w *world) {
		for i := range 20 {
			update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, paused: true", "image: v1", "image: w"+string(rune('a'+i)))
			w.soon()
		}
		if n := len(w.Names(plan.RevisionKind)); n != 11 {
			t.Errorf("%d revisions", n)
		}
		shops("z")(w.Cluster)
		w.soon()
		if got := w.running("z"); got != "v1" {
			t.Errorf("the unit runs %s", got)
		}
	})
}

// A child that the API server refuses to change for a field that never changes is deleted,
// and made anew of the change itself: that is the cure of what stopped.
func TestToDeleteWhatCannotChangeIsTheCure(t *testing.T) {
	var refusing atomic.Bool
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: func(ctx context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if refusing.Load() && verb == gridtest.Apply {
			return refuse("till-a")(ctx, verb, ref)
		}
		return nil
	}}}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.pass(time.Hour)
		refusing.Store(true)
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		w.pass(time.Minute)
		w.event("RolloutStopped")
		refusing.Store(false)
		w.Remove(deployment("till-a"))
		w.soon()
		if got := w.running("a", "b"); got != "v2v1" {
			t.Errorf("the units run %s", got)
		}
	})
}
