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
		status := written(obj)
		if status.ObservedGeneration != (&unstructured.Unstructured{Object: obj}).GetGeneration() {
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

// written is the status of a grid; that of another form, as SuperEdge's, is none.
func written(obj map[string]any) (status apiv1.WorkloadGridStatus) { // a ServiceGrid's has some of its fields
	from, _ := obj["status"].(map[string]any)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(from, &status) != nil {
		return apiv1.WorkloadGridStatus{}
	}
	return status
}

// noteUnseen names grids that an API server has and no controller has looked at
// yet, or not since they were changed: nothing becomes of them.
func (in *gridInput) noteUnseen(plans []plan.Plan) {
	asked := map[plan.Ref]bool{}
	for _, p := range plans {
		asked[p.Grid] = true
	}
	var never, before []string
	for _, obj := range in.world.Grids {
		grid := &unstructured.Unstructured{Object: obj}
		ref := plan.RefOf(obj)
		if !asked[ref] || grid.GetUID() == "" { // as of a manifest
			continue
		}
		switch seen := written(obj).ObservedGeneration; {
		case seen == 0:
			never = append(never, ref.String())
		case seen < grid.GetGeneration():
			before = append(before, ref.String())
		}
	}
	if len(never) > 0 {
		in.note("no controller has looked at %s yet, and so nothing is made of it: see that gridmesh-controller runs", plan.Short(never))
	}
	if len(before) > 0 {
		in.note("no controller has looked at %s since it was changed: see that gridmesh-controller runs, if this stays", plan.Short(before))
	}
}

// noteIdle says of grids that make nothing for want of Nodes that they do not.
func (in *gridInput) noteIdle(plans []plan.Plan) {
	asked := map[string]bool{}
	for _, p := range plans {
		asked[p.Grid.String()] = true
	}
	for _, p := range plan.Idle(in.world) {
		if asked[p.Object] {
			in.note("%s", p)
		}
	}
}

// notePods says who knows why a unit's pods are not ready: no grid watches pods. What
// begins with a name kubectl describes as well.
func (in *gridInput) notePods(p plan.Plan) {
	for _, s := range p.Steps {
		if s.Trouble() == "NotReady" {
			in.note("why pods are not ready (an image, a probe, no room) they say themselves, as: kubectl -n %s describe pods %s-", p.Grid.Namespace, s.Name)
			return
		}
	}
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
