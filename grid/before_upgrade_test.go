package grid_test

import (
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

const labelled = "team: shops, release: two" // what a grid's labels become with a release

// byAnEarlierController is v1 in units that are well, whose children do not say of which
// template they were made; hands may be on them as well, and the grid another when a
// controller leads.
func byAnEarlierController(t *testing.T, hand func(metadata plan.Object), words []string, test func(w *world)) {
	t.Helper()
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b", "c", "d")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.soon()
		for _, unit := range []string{"a", "b", "c", "d"} {
			w.RollOut(deployment("till-" + unit))
		}
		w.soon()
		w.stop()
		for _, unit := range []string{"a", "b", "c", "d"} {
			w.Edit(deployment("till-"+unit), func(o plan.Object) {
				metadata := o["metadata"].(plan.Object)
				delete(metadata["annotations"].(plan.Object), "gridmesh.io/applied-template")
				if hand != nil {
					hand(metadata)
				}
			})
		}
		update(w.Cluster, inWaves, words...)
		w.lead(settings{})
		w.soon()
		test(w)
	})
}

// After an update of the controller a new unit follows those that an earlier one applied:
// what they bear is found by what they say was applied, whether labels changed with the
// release, or somebody else put one on them.
func TestWhoDoesNotSayWhatItBearsCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		hand   func(metadata plan.Object)
		labels string
	}{
		"as it was":             {},
		"labels of the release": {labels: labelled},
		"labels of others":      {hand: func(metadata plan.Object) { metadata["labels"].(plan.Object)["audit"] = "yes" }},
	} {
		t.Run(name, func(t *testing.T) {
			byAnEarlierController(t, tc.hand, nil, func(w *world) {
				labels := "team: shops"
				if tc.labels != "" {
					labels = tc.labels
				}
				update(w.Cluster, inWaves, "team: shops", labels, "image: v1", "image: v2")
				w.pass(15 * time.Minute)
				w.event("RolloutStopped: unit a is not ready")
				shops("y")(w.Cluster)
				w.soon()
				if got := w.running("a", "b", "y"); got != "v2v1v1" {
					t.Errorf("while v2 is stopped the units run %s", got)
				}
				w.Remove(node("y"))
				w.Remove(deployment("till-y"))
				update(w.Cluster, inWaves, "team: shops", labels, "maxUnits: 1", "maxUnits: 1, paused: true", "image: v1", "image: v3")
				w.soon()
				shops("z")(w.Cluster)
				w.soon()
				if got := w.running("a", "b", "z"); got != "v2v1v1" {
					t.Errorf("while v3 is paused the units run %s", got)
				}
			})
		})
	}
}

// Where nobody can tell what most of them bear, nothing is made, least of all what the few
// bear that do say it; once they have the change, or the grid goes back, it is.
func TestWhatNobodyCanTellIsNotGuessed(t *testing.T) {
	for name, hand := range map[string]func(metadata plan.Object){
		"labels of the release and of others": func(metadata plan.Object) { metadata["labels"].(plan.Object)["audit"] = "yes" },
		"another controller's":                func(metadata plan.Object) { metadata["annotations"] = plan.Object{} },
	} {
		t.Run(name, func(t *testing.T) {
			byAnEarlierController(t, hand, []string{"team: shops", labelled, "image: v1", "image: v2"}, func(w *world) {
				w.pass(15 * time.Minute)
				w.event("RolloutStopped: unit a is not ready")
				w.ready("node-a", "Unknown") // and so nothing bad is known of it
				update(w.Cluster, inWaves, "team: shops", labelled, "maxUnits: 1", "maxUnits: 1, paused: true", "image: v1", "image: v3")
				w.soon()
				shops("z")(w.Cluster)
				w.soon()
				if got := w.running("a", "b", "z"); got != "v2v1--" {
					t.Errorf("while v3 is paused the units run %s", got)
				}
				w.event("Refused: deploymentgrid default/till: unit z: the unit is to begin with what most units have that wait for the change")
				w.event("their children do not say what that is")
				w.ready("node-a", "True")
				update(w.Cluster, inWaves, "team: shops", labelled, "image: v1", "image: v3")
				for range 20 {
					for _, name := range w.Names("Deployment") {
						w.RollOut(deployment(name))
					}
					w.pass(time.Minute)
				}
				if got := w.running("a", "b", "c", "d", "z"); got != "v3v3v3v3v3" {
					t.Errorf("in the end they run %s", got)
				}
			})
		})
	}
}

// The children of an earlier controller that are as the grid says wait for nothing: the few
// that were away are no majority beside them.
func TestWhoDoesNotSayWhatItBearsMayBeUpToDate(t *testing.T) {
	byAnEarlierController(t, nil, nil, func(w *world) {
		w.ready("node-d", "Unknown")
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		for range 20 {
			for _, unit := range []string{"a", "b", "c"} {
				w.RollOut(deployment("till-" + unit))
			}
			w.pass(time.Minute)
		}
		w.stop()
		for _, unit := range []string{"a", "b", "c"} { // d says it
			w.Edit(deployment("till-"+unit), func(o plan.Object) {
				delete(o["metadata"].(plan.Object)["annotations"].(plan.Object), "gridmesh.io/applied-template")
			})
		}
		w.lead(settings{})
		shops("z")(w.Cluster)
		w.soon()
		if got := w.running("a", "d", "z"); got != "v2v1v2" {
			t.Errorf("the units run %s", got)
		}
	})
}

// What one goes back to was there before, also where an earlier controller went back to it,
// and gave it a number that is higher than that of what it was.
func TestANewUnitGoesBackWithWhoCameBefore(t *testing.T) {
	s := settings{Config: gridtest.Config{AutoReady: true}}
	run(t, s, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.pass(time.Hour)
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 2", "image: v1", "image: v2")
		w.pass(30 * time.Second)
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 2, paused: true")
		w.soon()
		w.stop()
		for _, name := range w.Names(plan.RevisionKind) {
			w.Edit(plan.Ref{Kind: plan.RevisionKind, Namespace: "default", Name: name}, func(o plan.Object) {
				delete(o["metadata"].(plan.Object)["annotations"].(plan.Object), "gridmesh.io/first-revision")
			})
		}
		w.lead(s)
		w.soon()
		shops("z")(w.Cluster)
		w.soon()
		if got := w.running("a", "b", "c", "z"); got != "v2v2v1v1" {
			t.Errorf("the units run %s", got)
		}
	})
}
