package grid_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// A change of the grid that is none for a unit that stopped the rollout sets nothing going,
// though that unit is dark, or was refused what it is to have, and whoever else it changes.
func TestAnEditForOthersSetsNothingGoing(t *testing.T) {
	for name, tc := range map[string]struct{ edited, want string }{
		"of a unit that waits": {"templates: {c: canary}", "v2v1v1"},
		"of the last wave":     {"templates: {a: canary}", "v2v2v1"},
		"of none":              {"templates: {x: canary}", "v2v1v1"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{}, func(c *gridtest.Cluster) {
				shops("a", "b", "c")(c)
				update(c, inWaves)
			}, func(w *world) {
				w.soon()
				for _, unit := range []string{"a", "b", "c"} {
					w.RollOut(deployment("till-" + unit))
				}
				w.soon()
				failing, words := "a", []string{"image: v1", "image: v2"}
				if name == "of the last wave" { // b fails first, and is no part of that
					failing, words = "b", append(words, "maxUnits: 1", "maxUnits: 1, order: [b], maxFailedUnits: 1")
					update(w.Cluster, inWaves, words...)
					w.pass(25 * time.Minute) // a has it then, and does not become ready either
				} else {
					update(w.Cluster, inWaves, words...)
					w.pass(15 * time.Minute)
				}
				w.event("RolloutStopped")
				w.ready("node-"+failing, "Unknown")
				w.soon()
				if failing == "b" { // and none may fail by now
					words[3] = "maxUnits: 1, order: [b]"
				}
				update(w.Cluster, inWaves+"  "+tc.edited+"\n"+canary, words...)
				w.pass(15 * time.Minute)
				if got := w.running("a", "b", "c"); got != tc.want {
					t.Errorf("the units run %s, want %s", got, tc.want)
				}
				if status, _ := w.condition(till, "Progressing"); status != "False" {
					t.Errorf("Progressing is %s", status)
				}
			})
		})
	}
}

// What the API server refused in a unit stays refused there beside a change for others.
func TestAnEditForOthersForgetsNoRefusal(t *testing.T) {
	var refusing atomic.Bool
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: func(ctx context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if refusing.Load() && verb == gridtest.Apply && ref == deployment("till-a") {
			return refuse(ref.Name)(ctx, verb, ref)
		}
		return nil
	}}}, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.pass(time.Hour)
		refusing.Store(true)
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		w.pass(time.Minute)
		w.event("RolloutStopped: unit a is not ready")
		w.ready("node-a", "Unknown")
		w.soon()
		update(w.Cluster, inWaves+"  templates: {c: canary}\n"+canary, "image: v1", "image: v2")
		w.pass(5 * time.Minute)
		if got := w.running("a", "b", "c"); got != "v1v1v1" {
			t.Errorf("the units run %s", got)
		}
		// What mends it for that unit sets it going.
		refusing.Store(false)
		w.ready("node-a", "True")
		update(w.Cluster, inWaves, "image: v1", "image: v3")
		w.pass(10 * time.Minute)
		if got := w.running("a", "b", "c"); got != "v3v3v3" {
			t.Errorf("mended, the units run %s", got)
		}
	})
}

// More units may fail than a status names: those beyond that are counted, out of sight as
// well, by whoever leads, and for as long as they may not be well.
func TestMoreFailedThanAreNamed(t *testing.T) {
	var units []string
	for i := range 240 {
		units = append(units, fmt.Sprintf("u-%03d", i))
	}
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops(units...)(c)
		update(c, inWaves)
	}, func(w *world) {
		rollOut := func(units []string) {
			for _, unit := range units {
				w.RollOut(deployment("till-" + unit))
			}
			w.pass(2 * time.Second)
		}
		w.pass(time.Minute)
		rollOut(units)
		words := []string{"maxUnits: 1", "maxUnits: 150, maxFailedUnits: 120", "image: v1", "image: v2"}
		update(w.Cluster, inWaves, words...)
		w.pass(20 * time.Minute)
		w.event("RolloutStopped")
		stays := func(when string) {
			t.Helper()
			w.pass(5 * time.Minute)
			if got := w.running("u-150", "u-239"); got != "v1v1" {
				t.Errorf("%s: the others run %s", when, got)
			}
		}
		for _, unit := range units[:150] {
			w.ready("node-"+unit, "Unknown")
		}
		stays("dark")
		w.is(till, "status.rollout.failedUnits", 150)
		w.stop()
		w.lead(settings{})
		stays("another leads")
		for _, unit := range units[100:150] { // those that no list has
			w.Remove(node(unit))
		}
		stays("without nodes")
		shops(units[100:150]...)(w.Cluster)
		for _, unit := range units[:29] {
			w.ready("node-"+unit, "True")
		}
		rollOut(units[:29])
		stays("121 left")
		w.ready("node-u-029", "True")
		rollOut(units[29:30])
		w.pass(20 * time.Minute)
		if got := w.running("u-150", "u-239"); got != "v2v2" {
			t.Errorf("120 left: the others run %s", got)
		}
	})
}

// A deadline that was too short is mended by a longer one: the rollout goes on, once the
// unit is ready. Until then it is waited for, and out of sight it is not forgotten.
func TestALongerDeadlineSetsItGoing(t *testing.T) {
	for name, dark := range map[string]bool{"lit": false, "and dark meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{}, func(c *gridtest.Cluster) {
				shops("a", "b")(c)
				update(c, inWaves)
			}, func(w *world) {
				w.soon()
				w.RollOut(deployment("till-a"))
				w.RollOut(deployment("till-b"))
				w.soon()
				update(w.Cluster, inWaves, "progressDeadlineSeconds: 600", "progressDeadlineSeconds: 10", "image: v1", "image: v2")
				w.pass(time.Minute)
				w.event("RolloutStopped: unit a is not ready 10s after the change reached it")
				update(w.Cluster, inWaves, "progressDeadlineSeconds: 600", "progressDeadlineSeconds: 7200", "image: v1", "image: v2")
				w.pass(time.Minute)
				if status, message := w.condition(till, "Progressing"); status != "True" {
					t.Errorf("with a longer deadline Progressing is %s: %s", status, message)
				}
				if dark {
					w.ready("node-a", "Unknown")
					w.pass(5 * time.Minute)
					if got := w.running("a", "b"); got != "v2v1" {
						t.Errorf("out of sight: the units run %s", got)
					}
					if _, message := w.condition(till, "Progressing"); strings.Contains(message, "2h0m0s") {
						t.Errorf("after minutes: %s", message)
					}
					w.ready("node-a", "True")
				}
				w.pass(time.Minute)
				w.RollOut(deployment("till-a"))
				w.pass(2 * time.Minute)
				if got := w.running("a", "b"); got != "v2v2" {
					t.Errorf("it is ready, and the units run %s", got)
				}
			})
		})
	}
}

// What a refusal stopped says no time: none had passed.
func TestARefusalIsToldWithoutATime(t *testing.T) {
	var refusing atomic.Bool
	s := settings{Config: gridtest.Config{AutoReady: true, Before: func(ctx context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if refusing.Load() && verb == gridtest.Apply && ref == deployment("till-a") {
			return refuse(ref.Name)(ctx, verb, ref)
		}
		return nil
	}}}
	run(t, s, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.pass(time.Hour)
		refusing.Store(true)
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		w.pass(time.Minute)
		if _, message := w.condition(till, "Progressing"); !strings.HasPrefix(message, "unit a is not ready (Deployment till-a cannot be written: the API server refuses the child") {
			t.Errorf("Progressing: %s", message)
		}
	})
}

// What a rollout stopped with is what a new unit gets last, however many have it, and
// though their pods are out of sight.
func TestNobodyFollowsWhatWasStopped(t *testing.T) {
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b", "c", "d")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.soon()
		for _, unit := range []string{"a", "b", "c", "d"} {
			w.RollOut(deployment("till-" + unit))
		}
		w.soon()
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 3", "image: v1", "image: v2")
		w.pass(15 * time.Minute)
		w.event("RolloutStopped: unit a, b, c is not ready")
		for _, unit := range []string{"a", "b", "c"} {
			w.ready("node-"+unit, "Unknown")
		}
		for i, lead := range []bool{false, true} {
			update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 3, paused: true", "image: v1", fmt.Sprint("image: w", i))
			if lead {
				w.stop()
				w.lead(settings{})
			}
			w.soon()
			shops(fmt.Sprint("z", i))(w.Cluster)
			w.soon()
			if got := w.running("c", "d", fmt.Sprint("z", i)); got != "v2v1v1" {
				t.Errorf("the units run %s", got)
			}
		}
	})
}
