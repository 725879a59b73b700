package grid_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// Nobody vouches for a change while those that wait for it are out of sight: a unit that is
// dark, has no node or is refused bears what it bore, and what is made begins with that.
func TestWhoIsOutOfSightVouchesForNothing(t *testing.T) {
	pilot := func(w *world, more ...string) { // has v2, the others v1
		w.pass(time.Hour)
		update(w.Cluster, inWaves, append([]string{"pauseSeconds: 60", "pauseSeconds: 3600", "image: v1", "image: v2"}, more...)...)
		w.pass(time.Minute)
	}
	for name, tc := range map[string]struct {
		first, blink func(w *world)
	}{
		"paused, and dark for a while": {func(w *world) {
			pilot(w)
			update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, paused: true", "image: v1", "image: v2")
			w.soon()
		}, func(w *world) {
			for _, unit := range []string{"b", "c", "d"} {
				w.ready("node-"+unit, "Unknown")
			}
			w.pass(10 * time.Second)
			for _, unit := range []string{"b", "c", "d"} {
				w.ready("node-"+unit, "True")
			}
		}},
		"soaking, and without nodes for a while": {func(w *world) { pilot(w) }, func(w *world) {
			for _, unit := range []string{"b", "c", "d"} {
				w.Remove(node(unit))
			}
			w.pass(time.Minute)
			shops("b", "c", "d")(w.Cluster)
		}},
		"a template that only the pilot has": {func(w *world) { pilot(w) }, func(w *world) {
			update(w.Cluster, inWaves+"  defaultTemplateName: none\n  templates: {a: canary}\n"+canary, "pauseSeconds: 60", "pauseSeconds: 3600", "image: v1", "image: v2")
			w.pass(time.Minute)
			update(w.Cluster, inWaves+"  templates: {a: canary}\n"+canary, "maxUnits: 1", "maxUnits: 1, paused: true", "image: v1", "image: v3")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("a", "b", "c", "d")(c)
				update(c, inWaves)
			}, func(w *world) {
				tc.first(w)
				tc.blink(w)
				w.soon()
				shops("z")(w.Cluster)
				w.Remove(deployment("till-d"))
				w.soon()
				if got := w.running("c", "d", "z"); got != "v1v1v1" {
					t.Errorf("the units run %s", got)
				}
			})
		})
	}
}

// What is stopped stays out of reach of new units, whoever goes dark meanwhile.
func TestDarknessDoesNotMendWhatIsStopped(t *testing.T) {
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b", "c", "d")(c)
		update(c, inWaves)
	}, func(w *world) {
		units := []string{"a", "b", "c", "d"}
		w.soon()
		for _, unit := range units {
			w.RollOut(deployment("till-" + unit))
		}
		w.soon()
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 2", "image: v1", "image: v2")
		w.soon()
		w.RollOut(deployment("till-b"))
		w.pass(15 * time.Minute)
		w.event("RolloutStopped: unit a is not ready")
		for _, status := range []string{"Unknown", "True"} {
			for _, unit := range units {
				w.ready("node-"+unit, status)
			}
			w.pass(30 * time.Second)
		}
		shops("z")(w.Cluster)
		w.Remove(deployment("till-c"))
		w.soon()
		if got := w.running("c", "z"); got != "v1v1" {
			t.Errorf("the units run %s", got)
		}
	})
}

// A unit that is never well holds no other in the past: releases that went to all are what
// a unit begins with, whichever failed there.
func TestAUnitThatIsNeverWellKeepsNobodyBack(t *testing.T) {
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, inWaves)
	}, func(w *world) {
		release := func(image string, more string) {
			update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, maxFailedUnits: 1"+more, "image: v1", "image: "+image)
			for range 40 {
				for _, unit := range []string{"b", "c"} {
					w.RollOut(deployment("till-" + unit))
				}
				w.pass(time.Minute)
			}
		}
		w.soon()
		for i := range 5 {
			release(fmt.Sprint("v", i+1), "")
		}
		release("v6", ", paused: true")
		if got := w.running("a", "b", "c"); got != "v5v5v5" {
			t.Fatalf("the units run %s", got)
		}
		shops("z")(w.Cluster)
		w.Remove(deployment("till-b"))
		w.soon()
		if got := w.running("b", "z"); got != "v5v5" {
			t.Errorf("new units and one made anew run %s", got)
		}
	})
}

// The labels of a grid often change with each release, and are on its children.
func TestLabelsOfAReleaseHideNoEarlierOne(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.pass(time.Hour)
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, paused: true", "image: v1", "image: v2", "team: shops", "team: shops, release: two")
		w.soon()
		shops("z")(w.Cluster)
		w.soon()
		if got := w.running("a", "b", "z"); got != "v1v1v1" {
			t.Errorf("the units run %s", got)
		}
	})
}

// What one goes back to was there before: it goes to a new unit at once, also while the
// units that had the change wait for it.
func TestANewUnitGoesBackAtOnce(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.pass(time.Hour)
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 2", "image: v1", "image: v2")
		w.pass(30 * time.Second)
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 2, paused: true")
		w.soon()
		shops("z")(w.Cluster)
		w.soon()
		if got := w.running("a", "b", "c", "z"); got != "v2v2v1v1" {
			t.Errorf("the units run %s", got)
		}
	})
}

// A unit that was dark for long, and bears an old release, is none that a new unit follows.
func TestNobodyFollowsWhoWasDarkForLong(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.pass(time.Hour)
		w.ready("node-b", "Unknown")
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		w.pass(time.Hour)
		shops("z")(w.Cluster)
		w.soon()
		if got := w.running("a", "b", "c", "z"); got != "v2v1v2v2" {
			t.Errorf("the units run %s", got)
		}
	})
}

func node(unit string) plan.Ref { return plan.Ref{Kind: "Node", Name: "node-" + unit} }

// What stopped a rollout stops it while the unit is dark or without its node, too: a site
// whose uplink flaps would let the bad release go on by one wave each time.
func TestOutOfSightIsNotReady(t *testing.T) {
	for _, way := range []string{"dark", "without a node"} {
		t.Run(way, func(t *testing.T) {
			run(t, settings{}, func(c *gridtest.Cluster) {
				shops("a", "b", "c")(c)
				update(c, inWaves)
			}, func(w *world) {
				w.soon()
				for _, unit := range []string{"a", "b", "c"} {
					w.RollOut(deployment("till-" + unit))
				}
				w.soon()
				update(w.Cluster, inWaves, "image: v1", "image: v2")
				w.pass(15 * time.Minute)
				w.event("RolloutStopped: unit a is not ready")
				if way == "dark" {
					w.ready("node-a", "Unknown")
				} else {
					w.Remove(plan.Ref{Kind: "Node", Name: "node-a"})
				}
				w.pass(4 * time.Minute) // past the pause, and within the grace
				if got := w.running("b", "c"); got != "v1v1" {
					t.Errorf("the others run %s", got)
				}
				if got := w.running("a"); got != "v2" {
					t.Errorf("it runs %s", got)
				}
			})
		})
	}
}

// A refusal that stopped a rollout stops it for who takes over, and beside a change of the
// grid that is none of its spec.
func TestARefusalOutlivesWhoWasRefused(t *testing.T) {
	for _, way := range []string{"an annotation", "another leader"} {
		t.Run(way, func(t *testing.T) {
			var refusing atomic.Bool
			s := settings{Config: gridtest.Config{AutoReady: true, Before: func(ctx context.Context, verb gridtest.Verb, ref plan.Ref) error {
				if refusing.Load() && verb == gridtest.Apply && ref == deployment("till-a") {
					return refuse(ref.Name)(ctx, verb, ref)
				}
				return nil
			}}}
			run(t, s, func(c *gridtest.Cluster) {
				shops("a", "b", "c")(c)
				update(c, inWaves, "maxUnits: 1", "maxUnits: 2")
			}, func(w *world) {
				w.pass(time.Hour)
				refusing.Store(true)
				update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 2", "image: v1", "image: v2")
				w.pass(time.Minute)
				w.event("RolloutStopped: unit a is not ready")
				if way == "an annotation" {
					update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 2", "image: v1", "image: v2", "name: till,", "name: till, annotations: {note: x},")
				} else {
					w.stop()
					w.lead(s)
				}
				w.pass(5 * time.Minute)
				if got := w.running("a", "b", "c"); got != "v1v2v1" {
					t.Errorf("the units run %s", got)
				}
				refusing.Store(false)
				w.pass(5 * time.Minute)
				if got := w.running("a", "b", "c"); got != "v2v2v2" {
					t.Errorf("once it is taken the units run %s", got)
				}
			})
		})
	}
}
