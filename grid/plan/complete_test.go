package plan

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// release is the content of a grid's spec that a revision holds, by the uid of the grid.
type release struct {
	uid  string
	spec Object
}

// noteComplete notes what grids had when all of their units ran it.
func (c *cluster) noteComplete(plans []Plan) {
	for _, p := range plans {
		if p.Workload == nil || p.Workload.UpdatedUnits == 0 {
			continue
		}
		if is := meta.FindStatusCondition(p.Workload.Conditions, apiv1.Progressing); is.Reason == "Complete" {
			c.complete[p.Grid] = release{p.UID, clone(value[Object](c.objects[p.Grid], "spec"))}
		}
	}
}

// templateOf is what a spec has for a unit, read apart from the code under test.
func templateOf(spec Object, unit string) Object {
	name := value[string](spec, "templates", unit)
	if name == "" || name == "default" {
		return value[Object](spec, "template")
	}
	return value[Object](spec, "templatePool", name)
}

// checkBegin: while a rollout is stopped or paused, a child that is made has what was
// complete last.
func checkBegin(t *testing.T, seed uint64, c *cluster, p Plan, count map[string]int) {
	t.Helper()
	last, known := c.complete[p.Grid]
	if p.Workload == nil || !known || last.uid != p.UID || !meta.IsStatusConditionFalse(p.Workload.Conditions, apiv1.Progressing) {
		return
	}
	for _, s := range p.Steps {
		if s.Action != Create {
			continue
		}
		if count["made meanwhile"]++; s.begins(p) {
			count["begins with another"]++
		}
		containers := []string{"spec", "template", "spec", "containers"}
		got, want := value[any](s.Object(c.now), containers...), value[any](templateOf(last.spec, s.Unit), containers[1:]...)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: unit %s of %s, whose rollout stands still, begins with %v, and %v was complete last", seed, s.Unit, p.Grid, got, want)
		}
	}
}

// begins reports whether a child begins with another revision than the grid's.
func (s Step) begins(p Plan) bool {
	return s.desired != nil && s.desired.grid.revision != p.Workload.Revision
}
