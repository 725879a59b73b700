package grid_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// An object that only bears the labels of a grid takes no unit's place from what the
// grid has made there: neither is touched, whatever the other is called, and it is told
// of once. Where the unit has no other child any more it is adopted.
func TestWhatOnlyBearsTheLabelsTakesNoPlace(t *testing.T) {
	const labelled = `
apiVersion: apps/v1
kind: KIND
metadata: {name: a-copy, labels: {superedge.io/grid-selector: till, superedge.io/grid-uniq-key: site}}
spec:
  selector: {matchLabels: {app: till}}
  template:
    metadata: {labels: {app: till}}
    spec: {nodeSelector: {site: north}, containers: [{name: c, image: v1}]}
`
	for name, test := range map[string]struct {
		kind    string
		replace []string
	}{
		"a Deployment":                {"Deployment", nil},
		"a StatefulSet":               {"StatefulSet", nil},
		"another selector":            {"StatefulSet", []string{"matchLabels: {app: till}", "matchLabels: {app: other}"}},
		"annotated as one of ours":    {"Deployment", []string{"metadata: {name: a-copy,", "metadata: {name: a-copy, annotations: {gridmesh.io/applied: x, gridmesh.io/unit: north},"}},
		"named as another unit's own": {"Deployment", []string{"metadata: {name: a-copy,", "metadata: {name: till-east, annotations: {gridmesh.io/unit: north},"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("north", "south")(c)
				update(c, tillGrid, "DeploymentGrid", test.kind+"Grid")
			}, func(w *world) {
				w.soon()
				copied := strings.NewReplacer(append([]string{"KIND", test.kind}, test.replace...)...).Replace(labelled)
				at := plan.Ref{Kind: test.kind, Namespace: "default", Name: "a-copy"}
				if strings.Contains(copied, "till-east") {
					at.Name = "till-east"
				}
				real := plan.Ref{Kind: test.kind, Namespace: "default", Name: "till-north"}
				w.Update("kubectl", copied)
				before := time.Now()
				w.pass(20 * time.Minute)
				w.names(test.kind, at.Name, "till-north", "till-south")
				for _, call := range w.written(before) {
					if call.Ref == at || call.Ref == real {
						t.Errorf("%s %s", call.Verb, call.Ref)
					}
				}
				w.noEvent("Adopted")
				w.noEvent("UnitGone")
				w.event("LeftAlone: " + test.kind + " " + at.Name + " bears the labels of unit north, which has another child")
				if n := w.told("LeftAlone"); n != 1 {
					t.Errorf("it is told of %d times", n)
				}
				update(w.Cluster, tillGrid, "DeploymentGrid", test.kind+"Grid", "image: v1", "image: v2")
				w.soon()
				if status, message := w.condition(plan.Ref{Kind: test.kind + "Grid", Namespace: "default", Name: "till"}, "Ready"); status != "True" {
					t.Errorf("after a change: Ready is %q: %s", status, message)
				}
				w.quiet()
			})
		})
	}
}
