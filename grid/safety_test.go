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

// changes are the writes to children of grids since a time.
func (w *world) changes(since time.Time) (list []string) {
	for _, call := range w.Calls(func(c gridtest.Call) bool { return c.Verb != gridtest.Live && !c.At.Before(since) }) {
		if call.Ref.Kind == "Deployment" {
			list = append(list, fmt.Sprintf("%s %s", call.Verb, call.Ref.Name))
		}
	}
	return list
}

// What the API server does not store is not missing: the grid is ready, and
// its waves go on.
func TestZeroesAreNoDrift(t *testing.T) {
	manifest := strings.Replace(inWaves, "spec: {containers: [{name: c, image: v1}]}", `spec:
        hostNetwork: false
        nodeSelector: {}
        containers:
        - name: c
          image: v1
          env: [{name: X, value: ""}]
          readinessProbe: {initialDelaySeconds: 0}
          volumeMounts: [{name: d, mountPath: /a, readOnly: false}, {name: d, mountPath: /b, subPath: b}]`, 1)
	run(t, settings{Config: gridtest.Config{AutoReady: true, Mutate: dropZeroes}}, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, manifest)
	}, func(w *world) {
		w.soon()
		if status, message := w.condition(till, "Ready"); status != "True" {
			t.Errorf("Ready is %q: %s", status, message)
		}
		w.quiet()
		update(w.Cluster, manifest, "image: v1", "image: v2")
		w.pass(10 * time.Minute)
		w.is(till, "status.updatedUnits", 3)
		w.quiet()
		w.Edit(deployment("till-a"), func(o plan.Object) {
			o["spec"].(plan.Object)["template"].(plan.Object)["spec"].(plan.Object)["hostNetwork"] = true
		})
		w.soon()
		w.is(deployment("till-a"), "spec.template.spec.hostNetwork", nil)
	})
}

// What a webhook rewrites is not written again and again, not by a successor
// either; the grid is ready, its waves go on, and what a hand changes beside it
// comes back.
func TestAWebhookHasTheLastWord(t *testing.T) {
	s := settings{Config: gridtest.Config{AutoReady: true, Mutate: func(obj plan.Object) {
		if obj["kind"] == "Deployment" {
			obj["spec"].(plan.Object)["template"].(plan.Object)["spec"].(plan.Object)["schedulerName"] = "other"
		}
	}}}
	manifest := strings.Replace(inWaves, "spec: {containers", "spec: {schedulerName: mine, containers", 1)
	run(t, s, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, manifest)
	}, func(w *world) {
		w.soon()
		if status, message := w.condition(till, "Ready"); status != "True" {
			t.Errorf("Ready is %q: %s", status, message)
		}
		w.quiet()
		update(w.Cluster, manifest, "image: v1", "image: v2")
		w.pass(10 * time.Minute)
		w.is(till, "status.updatedUnits", 2)
		w.stop()
		since := time.Now()
		w.lead(s)
		w.pass(time.Minute)
		if list := w.changes(since); len(list) > 0 {
			t.Errorf("a successor writes %v", list)
		}
		w.Edit(deployment("till-a"), func(o plan.Object) {
			o["metadata"].(plan.Object)["labels"].(plan.Object)["team"] = "mine"
		})
		w.soon()
		w.is(deployment("till-a"), "metadata.labels.team", "shops")
		w.quiet()
	})
}

// Kubernetes' controller of a child writes its status just after the child was applied, each
// time: that a webhook has the last word is noted all the same, and is nobody's dispute.
func TestALastWordIsNotedBesideAStatus(t *testing.T) {
	var cluster *gridtest.Cluster
	s := settings{Config: gridtest.Config{
		AutoReady: true,
		Mutate: func(obj plan.Object) {
			if obj["kind"] == "Deployment" {
				obj["spec"].(plan.Object)["template"].(plan.Object)["spec"].(plan.Object)["schedulerName"] = "other"
			}
		},
		Before: func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
			if verb == gridtest.Merge && ref.Kind == "Deployment" && cluster.Object(ref) != nil {
				cluster.Edit(ref, func(o plan.Object) { o["status"].(plan.Object)["message"] = time.Now().String() })
			}
			return nil
		},
	}}
	manifest := strings.Replace(inWaves, "spec: {containers", "spec: {schedulerName: mine, containers", 1)
	run(t, s, func(c *gridtest.Cluster) {
		cluster = c
		shops("a", "b")(c)
		update(c, manifest)
	}, func(w *world) {
		w.soon()
		update(w.Cluster, manifest, "image: v1", "image: v2")
		w.pass(3 * time.Minute)
		w.is(till, "status.updatedUnits", 2)
		if status, message := w.condition(till, "Valid"); status != "True" {
			t.Errorf("Valid is %q: %s", status, message)
		}
		w.quiet()
	})
}

// A webhook that takes away what a child is known by, or that brings back what
// is to go, costs few writes, and is told of.
func TestAWebhookThatStripsIsNotFought(t *testing.T) {
	for _, key := range []string{"gridmesh.io/applied", "gridmesh.io/applied-at", "gridmesh.io/unit-gone-since", "gridmesh.io/settled"} {
		t.Run(key, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true, Mutate: func(obj plan.Object) {
				if obj["kind"] != "Deployment" {
					return
				}
				if annotations, ok := obj["metadata"].(plan.Object)["annotations"].(plan.Object); ok {
					delete(annotations, key)
				}
				obj["spec"].(plan.Object)["template"].(plan.Object)["spec"].(plan.Object)["schedulerName"] = "other"
			}}}, func(c *gridtest.Cluster) {
				shops("north", "south")(c)
				update(c, tillGrid, "spec: {containers", "spec: {schedulerName: mine, containers")
			}, func(w *world) {
				w.soon()
				w.Node("node-south", "stie", "south")
				since := time.Now()
				w.pass(time.Hour)
				if n := len(w.changes(since)); n > 400 {
					t.Errorf("%d writes in an hour", n)
				}
				w.event("takes away what was written; let it pass over the metadata of grids' children: the annotation " + key)
			})
		})
	}
}

// A unit that was gone and is back is as if it had never been gone, whatever
// else is due in it: when its label is lost again, the whole grace passes.
func TestAUnitThatIsBackIsGuardedAnew(t *testing.T) {
	for name, hold := range map[string]func(w *world){
		"paused": func(w *world) {
			update(w.Cluster, inWaves, "image: v1", "image: v2", "maxUnits", "paused: true, maxUnits")
		},
		"dark": func(w *world) { w.ready("node-b", "Unknown"); update(w.Cluster, inWaves, "image: v1", "image: v2") },
		"queued": func(w *world) {
			update(w.Cluster, inWaves, "image: v1", "image: v2", "pauseSeconds: 60", "pauseSeconds: 10000")
		},
		"refused": func(w *world) {
			update(w.Cluster, inWaves, "gridUniqKey: site", "gridUniqKey: site\n  templates: {b: none}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("a", "b")(c)
				update(c, inWaves)
			}, func(w *world) {
				w.soon()
				w.Node("node-b", "stie", "b")
				w.pass(time.Minute)
				if w.annotation(deployment("till-b"), "gridmesh.io/unit-gone-since") == "" {
					t.Fatal("it is not said since when unit b is gone")
				}
				hold(w)
				w.soon()
				w.label("node-b", "site", "b")
				w.pass(time.Minute)
				if since := w.annotation(deployment("till-b"), "gridmesh.io/unit-gone-since"); since != "" {
					t.Errorf("unit b is back, and gone since %s", since)
				}
				w.pass(2 * time.Hour)
				w.label("node-b", "stie", "b")
				w.pass(4 * time.Minute)
				w.names("Deployment", "till-a", "till-b")
				w.pass(2 * time.Minute)
				w.names("Deployment", "till-a")
			})
		})
	}
}

// Nobody looks at the units of a grid that is invalid, or left alone: one that was
// gone before may be back meanwhile, and is guarded anew.
func TestUnitsOfAGridThatIsMendedAreGuardedAnew(t *testing.T) {
	for name, words := range map[string][]string{
		"invalid":   {"  template:", "  tmplate:"},
		"federated": {"team: shops", "superedge.io/fed: x"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("a", "b")(c)
				update(c, tillGrid)
			}, func(w *world) {
				w.soon()
				w.label("node-b", "stie", "b")
				w.pass(time.Minute)
				update(w.Cluster, tillGrid, words...)
				w.soon()
				w.label("node-b", "site", "b")
				w.pass(24 * time.Hour)
				w.label("node-b", "stie", "b")
				w.pass(time.Minute)
				update(w.Cluster, tillGrid)
				w.pass(4 * time.Minute)
				w.names("Deployment", "till-a", "till-b")
				w.pass(2 * time.Minute)
				w.names("Deployment", "till-a")
			})
		})
	}
}

// A grid that is stored, and invalid, denies no unit: its children stay, and so does what was said of them.
func TestAnInvalidGridDeniesNoUnits(t *testing.T) {
	s := settings{Config: gridtest.Config{AutoReady: true}}
	run(t, s, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.pass(5 * time.Minute)
		update(w.Cluster, inWaves, "  template:", "  tmplate:")
		for range 2 { // and whoever takes over says so, too
			w.pass(time.Minute)
			w.is(till, "status.units", 2)
			w.is(till, "status.readyUnits", 2)
			for kind, want := range map[string]string{"Ready": "False", "Progressing": "True"} {
				if status, message := w.condition(till, kind); status != want || !strings.Contains(message, "its children stay as they are") {
					t.Errorf("%s is %s: %s", kind, status, message)
				}
			}
			w.names("Deployment", "till-a", "till-b")
			w.stop()
			w.lead(s)
		}
		update(w.Cluster, inWaves)
		w.soon()
		w.noEvent("RolloutInvalid")
		if status, message := w.condition(till, "Ready"); status != "True" {
			t.Errorf("mended, Ready is %s: %s", status, message)
		}
	})
}

// Nor does a ServiceGrid lose its Service.
func TestAnInvalidServiceGridKeepsItsService(t *testing.T) {
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a")(c)
		update(c, tillService)
	}, func(w *world) {
		w.soon()
		w.is(tillServices, "status.service", "till-svc")
		update(w.Cluster, tillService, "gridUniqKey: site", "gridUniqKey: a b")
		w.soon()
		if status, _ := w.condition(tillServices, "Valid"); status != "False" {
			t.Fatal("it is valid")
		}
		w.is(tillServices, "status.service", "till-svc")
	})
}

// Whoever takes over does not believe that a unit was gone all the time since
// it was seen gone: it may have been back while nobody watched.
func TestTheGraceBeginsWithWhoWatches(t *testing.T) {
	s := settings{Config: gridtest.Config{AutoReady: true}}
	run(t, s, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		w.Node("node-b", "stie", "b")
		w.pass(time.Minute)
		w.stop()
		w.Node("node-b", "site", "b")
		w.pass(24 * time.Hour)
		w.Node("node-b", "stie", "b")
		w.pass(time.Minute)
		w.lead(s)
		w.pass(4 * time.Minute)
		w.names("Deployment", "till-a", "till-b")
		w.pass(2 * time.Minute)
		w.names("Deployment", "till-a")
	})
}

// A child whose making was not answered is taken in, however late the mirror
// shows it: it is not let go of, and no other is made.
func TestAnAnswerThatIsLost(t *testing.T) {
	for _, lag := range []time.Duration{0, 3 * time.Second, 30 * time.Second} {
		for _, kind := range []string{"DeploymentGrid", "StatefulSetGrid"} {
			t.Run(fmt.Sprint(kind, " ", lag), func(t *testing.T) {
				var lost atomic.Int64
				lose := func(verb gridtest.Verb, ref plan.Ref) bool {
					return verb == gridtest.Apply && ref.Name == "till-north" && lost.Add(1) == 1
				}
				run(t, settings{Config: gridtest.Config{AutoReady: true, Lag: lag, Lose: lose}}, func(c *gridtest.Cluster) {
					shops("north", "south")(c)
					update(c, tillGrid, "DeploymentGrid", kind)
				}, func(w *world) {
					w.pass(2*time.Minute + 2*lag)
					w.names(strings.TrimSuffix(kind, "Grid"), "till-north", "till-south")
					w.noEvent("Released")
					if lost.Load() == 0 {
						t.Error("no answer was lost")
					}
					w.quiet()
				})
			})
		}
	}
}

const oldChildren = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: till-UNIT, labels: {superedge.io/grid-selector: till, superedge.io/grid-uniq-key: site}}
spec:
  replicas: 2
  selector: {matchLabels: {app: till}}
  template:
    metadata: {labels: {app: till}}
    spec: {nodeSelector: {site: SELECTED}, containers: [{name: c, image: v1}]}
`

// SuperEdge may have given every child the node selector of one unit. Each is
// taken over for the unit that it is named after; pods are replaced wave by
// wave, and not while the rollout is paused.
func TestAdoptsWrongNodeSelectors(t *testing.T) {
	selected := func(w *world) (list string) {
		for _, unit := range []string{"a", "b", "c"} {
			list += fmt.Sprint(w.at(deployment("till-"+unit), "spec.template.spec.nodeSelector.site"))
		}
		return list
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, inWaves, "maxUnits", "paused: true, maxUnits")
		for _, unit := range []string{"a", "b", "c"} {
			c.Update(plan.SuperEdgeManager, strings.NewReplacer("UNIT", unit, "SELECTED", "c").Replace(oldChildren))
		}
	}, func(w *world) {
		w.pass(10 * time.Minute)
		w.names("Deployment", "till-a", "till-b", "till-c")
		if got := selected(w); got != "ccc" {
			t.Errorf("while the rollout is paused, the units select %s", got)
		}
		if w.annotation(deployment("till-c"), "gridmesh.io/applied") == "" {
			t.Error("the child whose pods stay is not taken over")
		}
		update(w.Cluster, inWaves)
		w.soon()
		if got := selected(w); got != "acc" {
			t.Errorf("the first wave: the units select %s", got)
		}
		w.pass(5 * time.Minute)
		if got := selected(w); got != "abc" {
			t.Errorf("in the end the units select %s", got)
		}
		w.noEvent("Created")
		w.noEvent("UnitGone")
		w.noEvent("RolloutStopped")
		w.quiet()
	})
}

// gone has a child say since when its unit is.
func (w *world) gone(child, since string) {
	w.Edit(deployment(child), func(o plan.Object) {
		o["metadata"].(plan.Object)["annotations"].(plan.Object)["gridmesh.io/unit-gone-since"] = since
	})
}

// What a child says since when its unit is gone may be forged: a unit that was
// seen there has the whole grace from when it was seen gone.
func TestAForgedMarkDoesNotShortenTheGrace(t *testing.T) {
	for _, since := range []string{"1990-01-01T00:00:00Z", "2999-01-01T00:00:00Z"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+since, func(t *testing.T) {
				run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
					shops("north", "south")(c)
					update(c, tillGrid)
				}, func(w *world) {
					w.pass(time.Hour)
					if when == "before" { // it is forged before the mirror shows either
						w.Node("node-south", "stie", "south")
						w.gone("till-south", since)
					} else {
						w.Node("node-south", "stie", "south")
						w.pass(time.Minute)
						w.gone("till-south", since)
					}
					w.pass(3 * time.Minute)
					w.names("Deployment", "till-north", "till-south")
					w.pass(3 * time.Minute)
					w.names("Deployment", "till-north")
				})
			})
		}
	}
}
