package main

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// gridStatus is what the controller wrote of a grid as it stands: it alone knows what
// the API server answered.
type gridStatus struct {
	units map[string]apiv1.UnitStatus // the worst
	valid string                      // what is wrong, or ""
	ready string                      // what is not ready, or ""
	// rollout is Progressing, or nil.
	rollout *metav1.Condition
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
		out.valid, out.ready = denied(status.Conditions, apiv1.Valid), denied(status.Conditions, apiv1.Ready)
		out.rollout = meta.FindStatusCondition(status.Conditions, apiv1.Progressing)
	}
	return out
}

// denied is what a condition that is False says.
func denied(list []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(list, kind); c != nil && c.Status == metav1.ConditionFalse {
		return c.Message
	}
	return ""
}

// unexplained are the problems that the controller has with grids and nobody else
// sees: what the API server answered, and children that others change again and again.
// What it has yet to look at again is a note.
func (in *gridInput) unexplained(plans []plan.Plan) (list []topology.Problem) {
	for _, p := range plans {
		status, here := statusOf(in.world, p.Grid), p.Conditions()
		since, text := newsOf(status.valid, p.Problems)
		if since != "" {
			in.note("%s: the controller says: %s; here that is no longer so: if it stays, see that gridmesh-controller runs", p.Grid, since)
		}
		if text != "" {
			list = append(list, topology.Problem{Object: p.Grid.String(), Field: "status", Text: "the controller says: " + text})
		} else if status.ready != "" && meta.IsStatusConditionTrue(here, apiv1.Ready) {
			in.note("%s: the controller says: %s; if this stays, see its Events and that gridmesh-controller runs", p.Grid, status.ready)
		}
	}
	return list
}

// ofNodes are the fields that are right or wrong by what Nodes there are.
var ofNodes = []string{"spec.gridUniqKey: ", plan.OrderField + ": "}

// newsOf is what a grid's Valid says that the problems of a plan do not: what was so
// before Nodes changed, which no generation tells, and what the controller alone knows.
// The fields come before the units.
func newsOf(message string, problems []topology.Problem) (since, other string) {
	const cut, part = " ...", "; " // as plan.Cut leaves it, and what is between two, or within one
	text, short := strings.CutSuffix(message, cut)
	known := make([]string, 0, len(problems))
	for _, p := range problems {
		sentence := strings.TrimPrefix(p.String(), p.Object+": ")
		text, known = strings.ReplaceAll(text, sentence, ""), append(known, sentence)
	}
	parts := slices.DeleteFunc(strings.Split(text, part), func(s string) bool { return strings.Trim(s, part) == "" })
	for i := 0; short && i < len(parts); i++ {
		tail := strings.Join(parts[i:], part)
		if slices.ContainsFunc(known, func(s string) bool { return strings.HasPrefix(s, tail) }) {
			parts, short = parts[:i], false // the half of a known one
		}
	}
	fields := 0
	if len(parts) > 0 && slices.ContainsFunc(ofNodes, func(field string) bool { return strings.HasPrefix(parts[0], field) }) {
		fields = slices.IndexFunc(append(parts, "unit "), func(s string) bool { return strings.HasPrefix(s, "unit ") })
	}
	if since, other = strings.Join(parts[:fields], part), strings.Join(parts[fields:], part); short && other != "" {
		other += cut
	}
	return since, other
}

// standstill is a rollout that does not go on, Stopped or Paused, and why; or "". The
// controller's word goes first, for it knows what the API server answered; not so of the
// order, which is right or wrong by what is here.
func (s gridStatus) standstill(p plan.Plan) (word, why string) {
	c := meta.FindStatusCondition(p.Conditions(), apiv1.Progressing)
	if s.rollout != nil && !strings.HasPrefix(s.rollout.Message, plan.OrderField+" ") {
		c = s.rollout
	}
	if c == nil || c.Status != metav1.ConditionFalse {
		return "", ""
	}
	return c.Reason, c.Message
}

// stops are the rollouts that do not go on before somebody mends what stops them.
func (in *gridInput) stops(plans []plan.Plan) (list []topology.Problem) {
	for _, p := range plans {
		list = append(list, statusOf(in.world, p.Grid).stop(p)...)
	}
	return list
}

// stop is a rollout that is stopped, unless the plan's own problems say so; or nothing.
func (s gridStatus) stop(p plan.Plan) []topology.Problem {
	word, why := s.standstill(p)
	known := slices.ContainsFunc(p.Problems, func(problem topology.Problem) bool { return strings.Contains(why, problem.Text) })
	if word != plan.Stopped || known {
		return nil
	}
	return []topology.Problem{{Object: p.Grid.String(), Field: "spec.rollout", Text: "is stopped: " + why}}
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

// among tells which grids are those of plans.
func among(plans []plan.Plan) func(grid string) bool {
	asked := map[string]bool{}
	for _, p := range plans {
		asked[p.Grid.String()] = true
	}
	return func(grid string) bool { return asked[grid] }
}

// noteIdle says of grids that make nothing for want of Nodes that they do not.
func (in *gridInput) noteIdle(plans []plan.Plan) {
	asked := among(plans)
	for _, p := range plan.Idle(in.world) {
		if asked(p.Object) {
			in.note("%s", p)
		}
	}
}

// noteNameless says of grids that their pods are asked to have names which resolve nowhere,
// as serviceName names a ServiceGrid and not its Service: neither the API server nor the
// controller does. What manifests alone lack may be in the cluster.
func (in *gridInput) noteNameless(plans []plan.Plan) {
	asked := among(plans)
	for _, p := range plan.Review(in.world) {
		absent := in.world.Part && strings.Contains(p.Text, "there is no such Service here")
		if asked(p.Object) && strings.HasSuffix(p.Field, ".serviceName") && !absent {
			in.note("%s", p)
		}
	}
}

// noteUnanswered names grids' Services that answer nobody, as far as the pods of grids go: a selector
// or a targetPort that is mistyped no API server refuses, and the controller makes it as it is.
func (in *gridInput) noteUnanswered(asked func(grid string) bool) {
	for _, p := range plan.Unanswered(in.world, asked) {
		in.note("%s", p)
	}
}

// notePods says who knows why a unit's pods are not ready: no grid watches pods. What
// begins with a name kubectl describes as well.
func (in *gridInput) notePods(p plan.Plan) {
	for _, s := range p.Steps {
		if s.Trouble() == "NotReady" || s.Mixed {
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
