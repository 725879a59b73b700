package main

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// gridStatus is what the controller wrote of a grid as it stands: it alone knows what
// the API server answered.
type gridStatus struct {
	units map[string]apiv1.UnitStatus // the worst
	valid string                      // what is wrong, or ""
}

func statusOf(w plan.World, grid plan.Ref) gridStatus {
	out := gridStatus{units: map[string]apiv1.UnitStatus{}}
	for _, obj := range w.Grids {
		if plan.RefOf(obj) != grid {
			continue
		}
		var status apiv1.WorkloadGridStatus // a ServiceGrid's has some of its fields
		from, _ := obj["status"].(map[string]any)
		generation := (&unstructured.Unstructured{Object: obj}).GetGeneration()
		if runtime.DefaultUnstructuredConverter.FromUnstructured(from, &status) != nil || status.ObservedGeneration != generation {
			continue // of another form, or of the grid as it was
		}
		for _, u := range status.Worst {
			out.units[u.Unit] = u
		}
		if c := meta.FindStatusCondition(status.Conditions, apiv1.Valid); c != nil && c.Status == metav1.ConditionFalse {
			out.valid = c.Message
		}
	}
	return out
}

// why is what is wrong with a unit whose child is to be written: its own
// message, or, where it is not among the worst, that of the grid.
func (s gridStatus) why(step plan.Step) string {
	switch step.Action {
	case plan.Create, plan.Update, plan.Adopt, plan.Wait:
	default:
		return step.Why
	}
	switch u, named := s.units[step.Unit]; {
	case named && u.Reason == step.Trouble():
		return cmp.Or(u.Message, step.Why, s.valid)
	case named:
		return step.Why
	}
	return cmp.Or(step.Why, s.valid)
}
