package grid_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
)

// How far one change is says nothing of the next, nor of another order: a new unit gets the
// change where that itself has gone as far.
func TestTurnsAreOfOneChangeAndOneOrder(t *testing.T) {
	soak := func(s string) string { return strings.Replace(s, "pauseSeconds: 60", "pauseSeconds: 3600", 1) }
	withCanary := soak(inWaves) + "  templates: {b: canary}\n" + canary
	for name, tc := range map[string]struct {
		grid, want string
		next       func(w *world)
	}{
		"another change": {grid: withCanary, want: "v1", next: func(w *world) {
			update(w.Cluster, withCanary, "maxUnits: 1", "maxUnits: 2", "image: v1", "image: v2", "image: c1", "image: c2")
			w.pass(time.Minute)
			update(w.Cluster, withCanary, "maxUnits: 1", "maxUnits: 1, paused: true", "image: v1", "image: v3", "image: c1", "image: c2")
		}},
		"another order": {grid: soak(inWaves), want: "v1", next: func(w *world) {
			update(w.Cluster, soak(inWaves), "maxUnits: 1", "maxUnits: 1, order: [d]", "image: v1", "image: v2")
			w.pass(time.Minute)
			update(w.Cluster, soak(inWaves), "image: v1", "image: v2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("a", "b", "c", "d")(c)
				update(c, tc.grid)
			}, func(w *world) {
				w.pass(2 * time.Hour)
				tc.next(w)
				w.soon()
				if name == "another change" { // it goes on, and waits for what soaks
					update(w.Cluster, withCanary, "image: v1", "image: v3", "image: c1", "image: c2")
					w.soon()
				}
				shops("aa")(w.Cluster)
				w.soon()
				if got := w.running("aa"); got != tc.want {
					t.Errorf("the new unit runs %s, and the others %s", got, w.running("a", "b", "c", "d"))
				}
			})
		})
	}
}

// Nodes that are away, all of them or those of the units that wait, make no wave ready and
// end no pause.
func TestNoNodesEndNoWaveAndNoPause(t *testing.T) {
	for name, away := range map[string][]string{"all": {"a", "b", "c"}, "those that wait": {"b", "c"}} {
		for how, ready := range map[string]bool{"while the wave goes": false, "while it soaks": true} {
			t.Run(name+" "+how, func(t *testing.T) {
				run(t, settings{}, func(c *gridtest.Cluster) {
					shops("a", "b", "c")(c)
					update(c, inWaves, "pauseSeconds: 60", "pauseSeconds: 3600")
				}, func(w *world) {
					w.soon()
					for _, unit := range []string{"a", "b", "c"} {
						w.RollOut(deployment("till-" + unit))
					}
					w.soon()
					update(w.Cluster, inWaves, "pauseSeconds: 60", "pauseSeconds: 3600", "image: v1", "image: v2")
					w.soon()
					if ready {
						w.RollOut(deployment("till-a"))
						w.pass(time.Minute)
					}
					for _, unit := range away {
						w.Remove(node(unit))
					}
					w.pass(time.Minute)
					if !ready {
						w.noEvent("WaveReady")
					}
					shops(away...)(w.Cluster)
					w.RollOut(deployment("till-a"))
					w.pass(50 * time.Minute)
					if got := w.running("a", "b", "c"); got != "v2v1v1" {
						t.Errorf("within the pause the units run %s", got)
					}
					w.pass(15 * time.Minute)
					if got := w.running("a", "b", "c"); got != "v2v2v1" {
						t.Errorf("after the pause the units run %s", got)
					}
				})
			})
		}
	}
}
