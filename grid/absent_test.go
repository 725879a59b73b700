package grid_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

const tillService = `
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: till}
spec: {gridUniqKey: site, template: {selector: {app: till}, ports: [{port: 80}]}}
`

var (
	tillServices = plan.Ref{Kind: "ServiceGrid", Namespace: "default", Name: "till"}
	theService   = plan.Ref{Kind: "Service", Namespace: "default", Name: "till-svc"}
)

// said checks that a grid's condition Valid is False for a text, and that one Event
// said so.
func (w *world) said(grid plan.Ref, text string) {
	w.t.Helper()
	if status, message := w.condition(grid, "Valid"); status != "False" || !strings.Contains(message, text) {
		w.t.Errorf("%s: Valid is %q: %s, want %q", grid, status, message, text)
	}
	if n := w.told(grid.String() + ": Refused: "); n != 1 {
		w.t.Errorf("%s: %d Events, want one:\n%s", grid, n, strings.Join(w.events.All(), "\n"))
	}
}

// valid checks that nothing is wrong with a grid.
func (w *world) valid(grid plan.Ref) {
	w.t.Helper()
	if status, message := w.condition(grid, "Valid"); status != "True" {
		w.t.Errorf("%s: Valid is %q: %s", grid, status, message)
	}
}

func (w *world) goesBy(key string) {
	w.t.Helper()
	if got := w.annotation(theService, "topologyKeys"); got != `["`+key+`"]` {
		w.t.Errorf("the Service has the keys %s, want %s", got, key)
	}
}

// A unit key that is mistyped is told, and takes neither the Service from its clients nor
// the workloads behind it: all goes by the key that nodes have until one has the new one,
// or somebody deletes it. Then the others have their whole grace, whatever ran before.
func TestAMistypedKeyTakesNothingAway(t *testing.T) {
	for name, then := range map[string]func(w *world){
		"mended": func(w *world) {
			update(w.Cluster, tillService)
			update(w.Cluster, tillGrid)
			w.soon()
			w.goesBy("site")
			w.valid(till)
			w.pass(4 * time.Minute)
			w.names("Deployment", "till-a", "till-b", "till-c", "till-d")
			w.pass(time.Hour)
			w.names("Deployment", "till-a", "till-b", "till-c")
		},
		"meant": func(w *world) {
			w.label("node-a", "stie", "a")
			w.soon()
			w.goesBy("stie")
			w.is(deployment("till-a"), "spec.template.spec.nodeSelector.stie", "a")
			w.pass(4 * time.Minute)
			w.names("Deployment", "till-a", "till-b", "till-c", "till-d")
			w.pass(time.Hour)
			w.names("Deployment", "till-a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("a", "b", "c", "d")(c)
				update(c, tillGrid)
				update(c, tillService)
			}, func(w *world) {
				w.soon()
				w.goesBy("site")
				w.valid(tillServices)
				w.Node("node-d", "other", "d")
				w.pass(time.Minute) // of the grace of d
				update(w.Cluster, tillGrid, "site", "stie")
				update(w.Cluster, tillService, "site", "stie", "port: 80", "port: 81")
				w.pass(time.Hour)
				w.goesBy("site")
				w.names("Deployment", "till-a", "till-b", "till-c", "till-d")
				w.said(tillServices, "spec.gridUniqKey: does not change its Service, which goes by site, for no node has the label stie; did you mean site?")
				w.said(till, "spec.gridUniqKey: does not change its Deployments, which go by site, for no node has the label stie; did you mean site?")
				w.is(till, "status.heldUnits", 4)
				w.noEvent("Removed: ")
				if _, message := w.condition(till, "Progressing"); message != "no node has the unit key" {
					t.Errorf("Progressing says of a grid without units: %s", message)
				}
				then(w)
				w.valid(tillServices)
			})
		})
	}
}

// That there are no Nodes is no word on any unit: all that was made goes on, for as long as
// it takes, and that is told. Units that stay away have their whole grace from the first
// Node on, whatever ran before.
func TestNoNodesTakeNothingAway(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b", "c", "d")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		for _, unit := range []string{"d", "c", "b", "a"} {
			w.Remove(plan.Ref{Kind: "Node", Name: "node-" + unit})
			w.pass(time.Minute) // of the grace of d, c and b
		}
		w.quiet()
		w.pass(time.Hour)
		w.names("Deployment", "till-a", "till-b", "till-c", "till-d")
		w.said(till, "spec.gridUniqKey: keeps its Deployments as they are, for there are no Nodes; bring those back")
		w.is(till, "status.heldUnits", 4)
		w.Node("node-a", "site", "a")
		w.pass(4 * time.Minute)
		w.valid(till)
		w.names("Deployment", "till-a", "till-b", "till-c", "till-d")
		w.pass(time.Hour)
		w.names("Deployment", "till-a")
	})
}

// A label that all nodes lost is no key that is mistyped: that the workloads go, behind the
// guard, is told.
func TestALabelThatAllNodesLostIsTold(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		w.label("node-a", "stie", "a")
		w.label("node-b", "stie", "b")
		w.soon()
		w.said(till, "spec.gridUniqKey: makes nothing, and removes its Deployments by and by, for no node has the label site; did you mean stie?")
		w.pass(4 * time.Minute)
		w.names("Deployment", "till-a", "till-b")
		w.pass(time.Hour)
		w.names("Deployment")
	})
}

// Who wants the key all the same deletes the Service; a new one is made as it is
// asked for, and told of. Where there are no Nodes nobody knows.
func TestAServiceIsMadeByAKeyThatNoNodeHas(t *testing.T) {
	run(t, settings{}, func(c *gridtest.Cluster) { update(c, tillService) }, func(w *world) {
		w.soon()
		w.goesBy("site")
		w.valid(tillServices)
		w.Node("node-north", "site", "north")
		update(w.Cluster, tillService, "site", "stie")
		w.soon()
		w.goesBy("site")
		w.Remove(theService)
		w.soon()
		w.goesBy("stie")
		if _, message := w.condition(tillServices, "Valid"); !strings.Contains(message, "makes a Service that answers nobody, for no node has the label stie") {
			t.Errorf("the grid says %q", message)
		}
		w.quiet()
	})
}

// A pilot that is mistyped is not passed over: no wave begins before a node is in the
// unit, or the order is mended.
func TestAMistypedPilotHoldsTheWaves(t *testing.T) {
	const order = "maxUnits: 1, order: [pilto]"
	for name, then := range map[string]func(w *world){
		"mended": func(w *world) {
			update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, order: [pilot]", "image: v1", "image: v2")
			w.soon()
			w.running3("v1v2v1")
		},
		"labelled": func(w *world) {
			w.Node("node-new", "site", "pilto")
			w.soon()
			if got := w.running("pilto"); got != "v2" {
				t.Errorf("a new unit runs %s", got)
			}
			w.running3("v1v1v1") // the pilot is a wave of its own
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("a", "pilot", "z")(c)
				update(c, inWaves)
			}, func(w *world) {
				w.soon()
				update(w.Cluster, inWaves, "maxUnits: 1", order)
				w.soon()
				w.said(till, "spec.rollout.order: names unit pilto, of which there is no node (site is the label)")
				w.noEvent("RolloutStopped")
				update(w.Cluster, inWaves, "maxUnits: 1", order, "image: v1", "image: v2")
				w.pass(time.Hour)
				w.running3("v1v1v1")
				if status, message := w.condition(till, "Progressing"); status != "False" || !strings.Contains(message, "names unit pilto") {
					t.Errorf("Progressing is %q: %s", status, message)
				}
				w.event("RolloutStopped: spec.rollout.order names unit pilto")
				then(w)
				w.valid(till)
				w.pass(time.Hour)
				w.running3("v2v2v2")
			})
		})
	}
}

// A pilot whose last node is gone, for good or to be set up anew, was one and is not
// mistyped: changes go on, a rollback above all, also once its child is gone and another
// controller leads.
func TestAPilotThatIsGoneHoldsNothing(t *testing.T) {
	const order = "maxUnits: 1, order: [pilot]"
	s := settings{Config: gridtest.Config{AutoReady: true}}
	for name, forgotten := range map[string]bool{"at once": false, "its child is gone": true} {
		t.Run(name, func(t *testing.T) {
			run(t, s, func(c *gridtest.Cluster) {
				shops("a", "pilot", "z")(c)
				update(c, inWaves, "maxUnits: 1", order)
			}, func(w *world) {
				w.soon()
				update(w.Cluster, inWaves, "maxUnits: 1", order, "image: v1", "image: v2")
				w.pass(time.Hour)
				w.running3("v2v2v2")
				w.Remove(plan.Ref{Kind: "Node", Name: "node-pilot"})
				if forgotten {
					w.pass(time.Hour)
					w.names("Deployment", "till-a", "till-z")
					w.stop()
					w.lead(s)
				}
				for _, image := range []string{"v1", "v3"} {
					update(w.Cluster, inWaves, "maxUnits: 1", order, "image: v1", "image: "+image)
					w.pass(time.Hour)
					if got := w.running("a", "z"); got != image+image {
						t.Errorf("a and z run %s, want %s", got, image)
					}
					w.valid(till)
				}
				w.noEvent("RolloutStopped")
				w.Node("node-pilot", "site", "pilot")
				w.soon()
				w.running3("v3v3v3")
				w.is(till, "status.gone", nil)
			})
		})
	}
}

// A pilot that is mistyped does not hold what the units go back to: who rolls back is in
// a hurry, and that has been there before.
func TestAMistypedPilotHoldsNoRollback(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "pilot", "z")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.soon()
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		w.pass(time.Hour)
		w.running3("v2v2v2")
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, order: [pilto]")
		w.pass(time.Hour)
		w.running3("v1v1v1")
		w.said(till, "spec.rollout.order: names unit pilto, of which there is no node")
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, order: [pilto]", "image: v1", "image: v3")
		w.pass(time.Hour)
		w.running3("v1v1v1")
	})
}

// A pilot whose nodes are there and dark is passed over, as every unit is.
func TestADarkPilotHoldsNothing(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "pilot", "z")(c)
		update(c, inWaves, "maxUnits: 1", "maxUnits: 1, order: [pilot]")
	}, func(w *world) {
		w.soon()
		w.ready("node-pilot", "Unknown")
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 1, order: [pilot]", "image: v1", "image: v2")
		w.pass(10 * time.Minute)
		w.running3("v2v1v2")
		w.valid(till)
	})
}

func (w *world) running3(want string) {
	w.t.Helper()
	if got := w.running("a", "pilot", "z"); got != want {
		w.t.Errorf("a, pilot and z run %s, want %s", got, want)
	}
}
