package grid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// running are the images of units' children, one after the other; -- for none.
func (w *world) running(units ...string) (list string) {
	for _, unit := range units {
		containers := fmt.Sprint(w.at(deployment("till-"+unit), "spec.template.spec.containers"))
		_, image, _ := strings.Cut(containers, "image:")
		list += (image + "--")[:2]
	}
	return list
}

const canary = `  templatePool:
    canary: {replicas: 2, selector: {matchLabels: {app: till}}, template: {metadata: {labels: {app: till}}, spec: {containers: [{name: c, image: c1}]}}}
`

// The pause after a wave goes on where the grid changes in what the wave has
// not reached: an unused template that is dropped, a unit that is given another.
func TestThePauseOutlivesOtherChanges(t *testing.T) {
	for name, change := range map[string][2]string{
		"unused template dropped": {"  autoDeleteUnusedTemplate: true\n" + canary, ""},
		"template of a unit":      {"", "  templates: {c: canary}\n" + canary},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("a", "b", "c")(c)
				update(c, inWaves, "pauseSeconds: 60", "pauseSeconds: 600")
			}, func(w *world) {
				w.pass(time.Hour)
				update(w.Cluster, inWaves+change[0], "pauseSeconds: 60", "pauseSeconds: 600", "image: v1", "image: v2")
				w.pass(time.Minute)
				if change[1] != "" {
					update(w.Cluster, inWaves+change[1], "pauseSeconds: 60", "pauseSeconds: 600", "image: v1", "image: v2")
				}
				w.pass(8 * time.Minute)
				if got := w.running("a", "b", "c"); got != "v2v1v1" {
					t.Errorf("within the pause the units run %s", got)
				}
				w.pass(2 * time.Minute)
				if got := w.running("a", "b", "c"); got != "v2v2v1" {
					t.Errorf("after the pause the units run %s", got)
				}
				// What changes the units of the wave itself begins anew, at once.
				update(w.Cluster, inWaves, "pauseSeconds: 60", "pauseSeconds: 600", "image: v1", "image: v3")
				w.soon()
				if got := w.running("a", "b", "c"); got != "v3v2v1" {
					t.Errorf("after another change the units run %s", got)
				}
			})
		})
	}
}

// A change of one unit of a wave goes to that unit at once, and takes nobody along:
// what the others of the wave run soaks on. So it is however often that comes, and of
// whichever unit.
func TestAPartOfAWaveThatChangesTakesNobodyAlong(t *testing.T) {
	for unit, within := range map[string]string{"a": "c1v2v1v1", "b": "v2c1v1v1"} {
		for name, grid := range map[string]string{
			"another template":                  inWaves + strings.Replace(canary, "templatePool", "templates: {UNIT: canary}\n  templatePool", 1),
			"and one that is dropped by itself": inWaves + "  autoDeleteUnusedTemplate: true\n  templates: {UNIT: canary}\n" + canary + strings.ReplaceAll(strings.Replace(canary, "  templatePool:\n", "", 1), "canary", "other"),
		} {
			t.Run(name+" of "+unit, func(t *testing.T) {
				run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
					shops("a", "b", "c", "d")(c)
					update(c, inWaves)
				}, func(w *world) {
					change := func(grid, canary string) {
						update(w.Cluster, grid, "maxUnits: 1", "maxUnits: 2", "pauseSeconds: 60", "pauseSeconds: 600", "image: v1", "image: v2", "UNIT", unit, "image: c1", "image: "+canary)
						w.soon()
					}
					w.pass(time.Hour)
					change(inWaves, "")
					w.pass(time.Minute)
					change(grid, "c0")
					change(grid, "c1")
					w.pass(9 * time.Minute)
					if got := w.running("a", "b", "c", "d"); got != within {
						t.Errorf("within the pause the units run %s", got)
					}
					w.pass(2 * time.Minute)
					if got, want := w.running("a", "b", "c", "d"), within[:4]+"v2v2"; got != want {
						t.Errorf("after the pause the units run %s, want %s", got, want)
					}
				})
			})
		}
	}
}

// Of a wave that is not ready, one unit is given another template: it has it once the
// other is ready, and the next wave waits for the pause after that.
func TestAPartOfAWaveThatIsNotReadyIsMended(t *testing.T) {
	for unit, others := range map[string]string{"a": "b", "b": "a"} {
		run(t, settings{}, func(c *gridtest.Cluster) {
			shops("a", "b", "c")(c)
			update(c, inWaves)
		}, func(w *world) {
			w.soon()
			for _, child := range []string{"a", "b", "c"} {
				w.RollOut(deployment("till-" + child))
			}
			w.soon()
			words := []string{"maxUnits: 1", "maxUnits: 2", "image: v1", "image: v2"}
			update(w.Cluster, inWaves, words...)
			w.pass(time.Minute)
			update(w.Cluster, inWaves+"  templates: {"+unit+": canary}\n"+canary, words...)
			w.pass(time.Minute)
			if got := w.running("a", "b", "c"); got != "v2v2v1" {
				t.Errorf("before unit %s is ready, the units run %s", others, got)
			}
			w.RollOut(deployment("till-" + others))
			w.soon()
			if got := w.running(unit, others, "c"); got != "c1v2v1" {
				t.Errorf("units %s, %s and c run %s", unit, others, got)
			}
			w.pass(time.Minute)
			w.RollOut(deployment("till-" + unit))
			w.pass(50 * time.Second)
			if got := w.running("c"); got != "v1" {
				t.Errorf("within the pause unit c runs %s", got)
			}
			w.pass(20 * time.Second)
			if got := w.running("c"); got != "v2" {
				t.Errorf("after the pause unit c runs %s", got)
			}
		})
	}
}

// A unit that was dark in its wave has the whole deadline from when a node is
// ready; a clock of that node that is far off changes nothing.
func TestADarkUnitHasItsDeadline(t *testing.T) {
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.soon()
		w.RollOut(deployment("till-a"))
		w.RollOut(deployment("till-b"))
		w.soon()
		update(w.Cluster, inWaves, "pauseSeconds: 60", "pauseSeconds: 10000", "image: v1", "image: v2")
		w.soon()
		w.ready("node-a", "Unknown")
		w.pass(time.Hour)
		w.ready("node-a", "True")
		w.pass(9 * time.Minute)
		w.noEvent("RolloutStopped")
		w.pass(2 * time.Minute)
		w.event("RolloutStopped: unit a is not ready")
		w.RollOut(deployment("till-a"))
		w.pass(3 * time.Hour)
		w.RollOut(deployment("till-b"))
		w.soon()
		w.event("RolloutComplete: every unit runs what the grid says")
		for _, event := range w.events.All() {
			if strings.HasSuffix(event, ": ") {
				t.Errorf("an Event without words: %s", event)
			}
		}
		w.quiet()
	})
}

// What is said of a unit that the API server refused ends with the unit.
func TestARefusalEndsWithItsUnit(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: refuse("till-south")}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		if status, message := w.condition(till, "Valid"); status != "False" || !strings.Contains(message, "unit south") {
			t.Errorf("Valid is %q: %s", status, message)
		}
		w.Node("node-south", "site", "north")
		w.pass(time.Minute)
		if status, message := w.condition(till, "Valid"); status != "True" {
			t.Errorf("Valid is %q: %s", status, message)
		}
	})
}

// A wave ends, whatever keeps a child from being as it is to be: it stops at its
// deadline, by name and with the cause, or goes on where that many units may
// fail; and it goes on by itself when the cause is gone.
func TestAWaveThatCannotEndStops(t *testing.T) {
	var on atomic.Bool
	var n atomic.Int64
	away := func(err error) func(context.Context, gridtest.Verb, plan.Ref) error {
		return func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
			if on.Load() && verb == gridtest.Apply && ref == deployment("till-a") {
				return err
			}
			return nil
		}
	}
	for name, tc := range map[string]struct {
		gridtest.Config
		hinder func(w *world) // every second
		cause  string
	}{
		"a webhook that never lets it settle": {Config: gridtest.Config{Mutate: func(obj plan.Object) {
			if value, _ := obj["metadata"].(plan.Object)["name"].(string); on.Load() && value == "till-a" {
				schedule(obj, fmt.Sprint("other-", n.Add(1)))
			}
		}}, cause: "somebody else keeps changing " + scheduler + " of Deployment till-a"},
		"another controller": {hinder: func(w *world) {
			if w.at(deployment("till-a"), scheduler) == "mine" {
				w.Edit(deployment("till-a"), func(o plan.Object) { schedule(o, "theirs") })
			}
		}, cause: "somebody else keeps changing " + scheduler + " of Deployment till-a"},
		"one who deletes it": {hinder: func(w *world) {
			if w.Object(deployment("till-a")) != nil {
				w.Remove(deployment("till-a"))
			}
		}, cause: "somebody else keeps deleting Deployment till-a"},
		"a webhook that is away": {
			Config: gridtest.Config{Before: away(apierrors.NewInternalError(errors.New("failed calling webhook")))},
			cause:  "Deployment till-a cannot be written: ",
		},
	} {
		for _, may := range []int{0, 1} {
			t.Run(fmt.Sprint(name, ", ", may, " may fail"), func(t *testing.T) {
				on.Store(false)
				tc.AutoReady = true
				grid := strings.NewReplacer("maxUnits: 1", fmt.Sprint("maxUnits: 1, maxFailedUnits: ", may), "spec: {containers", "spec: {schedulerName: mine, containers").Replace(inWaves)
				run(t, settings{Config: tc.Config}, func(c *gridtest.Cluster) {
					shops("a", "b")(c)
					update(c, grid)
				}, func(w *world) {
					w.pass(10 * time.Minute)
					pass := func(d time.Duration) {
						for end := time.Now().Add(d); time.Now().Before(end); w.pass(time.Second) {
							if tc.hinder != nil && on.Load() {
								tc.hinder(w)
							}
						}
					}
					on.Store(tc.hinder == nil)
					update(w.Cluster, grid, "image: v1", "image: v2")
					w.soon()
					on.Store(true)
					pass(9 * time.Minute)
					w.noEvent("RolloutStopped")
					if got := w.running("b"); got != "v1" {
						t.Errorf("while the wave goes on, the next unit runs %s", got)
					}
					pass(4 * time.Minute) // the deadline, and the pause
					status, message := w.condition(till, "Progressing")
					if may == 1 {
						w.noEvent("RolloutStopped")
						if got := w.running("b"); got != "v2" {
							t.Errorf("one may fail, and the next unit runs %s; Progressing is %q: %s", got, status, message)
						}
						return
					}
					w.event("RolloutStopped: unit a is not ready 10m0s after the change reached it (" + tc.cause)
					if status != "False" || !strings.Contains(message, tc.cause) {
						t.Errorf("Progressing is %q: %s", status, message)
					}
					if got := w.running("b"); got != "v1" {
						t.Errorf("it stopped, and the next unit runs %s", got)
					}
					on.Store(false)
					w.pass(10 * time.Minute)
					if got := w.running("a", "b"); got != "v2v2" {
						t.Errorf("the cause is gone, and the units run %s", got)
					}
					w.event("RolloutComplete")
					w.quiet()
				})
			})
		}
	}
}

// What a hand changed in a unit of an earlier wave is undone, and is no reason to
// stop: its deadline was another time's.
func TestAHandInAnEarlierWaveStopsNothing(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves, "pauseSeconds: 60", "pauseSeconds: 3600")
	}, func(w *world) {
		w.pass(time.Hour)
		update(w.Cluster, inWaves, "pauseSeconds: 60", "pauseSeconds: 3600", "image: v1", "image: v2")
		w.pass(30 * time.Minute)
		w.Edit(deployment("till-a"), func(o plan.Object) {
			o["spec"].(plan.Object)["template"].(plan.Object)["spec"].(plan.Object)["containers"] = []any{}
		})
		w.pass(time.Minute)
		if got := w.running("a"); got != "v2" {
			t.Errorf("the unit runs %s", got)
		}
		w.noEvent("RolloutStopped")
	})
}

// A write of which no answer came, and that was done, is no failure of later: what a
// hand changed long after is undone, and stops nothing.
func TestAnAnswerThatWasLostStopsNothingLater(t *testing.T) {
	var on atomic.Bool
	lose := func(verb gridtest.Verb, ref plan.Ref) bool {
		return verb == gridtest.Apply && ref == deployment("till-a") && on.CompareAndSwap(true, false)
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Lose: lose}}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves, "pauseSeconds: 60", "pauseSeconds: 3600")
	}, func(w *world) {
		w.pass(time.Hour)
		on.Store(true)
		update(w.Cluster, inWaves, "pauseSeconds: 60", "pauseSeconds: 3600", "image: v1", "image: v2")
		w.pass(30 * time.Minute)
		if on.Load() {
			t.Error("no answer was lost")
		}
		w.Edit(deployment("till-a"), func(o plan.Object) {
			o["spec"].(plan.Object)["template"].(plan.Object)["spec"].(plan.Object)["containers"] = []any{}
		})
		w.pass(time.Minute)
		if got := w.running("a"); got != "v2" {
			t.Errorf("the unit runs %s", got)
		}
		w.noEvent("RolloutStopped")
	})
}

// A wave that is ready at once was not ready before it began, though its status
// knows whole seconds alone.
func TestAWaveTakesNoLessThanNothing(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.soon()
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		w.soon()
		w.event("WaveReady: the wave is ready 0s after it began")
		w.noEvent("ready -")
	})
}
