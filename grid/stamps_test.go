package grid_test

import (
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// The deadline of a child that does not say when it was applied counts from when it was
// first seen so: it stops, at that time and no sooner.
func TestAChildThatDoesNotSaySinceWhen(t *testing.T) {
	for name, spoil := range map[string]func(annotations plan.Object){
		"malformed": func(annotations plan.Object) { annotations["gridmesh.io/applied-at"] = "yesterday" },
		"empty":     func(annotations plan.Object) { annotations["gridmesh.io/applied-at"] = "" },
		"gone":      func(annotations plan.Object) { delete(annotations, "gridmesh.io/applied-at") },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{}, func(c *gridtest.Cluster) {
				shops("a", "b")(c)
				update(c, inWaves)
			}, func(w *world) {
				w.soon()
				w.RollOut(deployment("till-a"))
				w.RollOut(deployment("till-b"))
				w.pass(time.Hour)
				update(w.Cluster, inWaves, "image: v1", "image: v2")
				w.soon()
				w.Edit(deployment("till-a"), func(o plan.Object) {
					spoil(o["metadata"].(plan.Object)["annotations"].(plan.Object))
				})
				w.pass(9 * time.Minute)
				w.noEvent("RolloutStopped")
				w.pass(2 * time.Minute)
				w.event("RolloutStopped: unit a is not ready 10m0s after the change reached it")
				w.RollOut(deployment("till-a"))
				w.pass(2 * time.Minute)
				if got := w.running("b"); got != "v2" {
					t.Errorf("the unit is ready, and the next one runs %s", got)
				}
			})
		})
	}
}

// A webhook that takes away when children were applied stops no wave, one after the
// other.
func TestWavesWithoutStamps(t *testing.T) {
	run(t, settings{Config: gridtest.Config{Mutate: func(obj plan.Object) {
		if annotations, ok := obj["metadata"].(plan.Object)["annotations"].(plan.Object); ok {
			delete(annotations, "gridmesh.io/applied-at")
		}
	}}}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		for _, image := range []string{"v1", "v2", "v3"} {
			update(w.Cluster, inWaves, "image: v1", "image: "+image)
			for _, unit := range []string{"a", "b"} {
				w.pass(5 * time.Minute)
				w.RollOut(deployment("till-" + unit))
			}
			w.pass(time.Hour)
			if got := w.running("a", "b"); got != image+image {
				t.Errorf("the units run %s, want %s", got, image)
			}
		}
		w.noEvent("RolloutStopped")
		w.event("takes away what was written; let it pass over the metadata of grids' children: the annotation gridmesh.io/applied-at")
		w.quiet()
	})
}
