package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/topology"
)

// A status stays far below the size of an object, however many units there are.
const (
	maxWorst  = 20
	maxStates = 200
)

// StatusChanged reports whether a plan's status is another than the one that
// stands.
func (x *Index) StatusChanged(p Plan) bool {
	m := x.records[p.Grid]
	return m != nil && p.differs(m.workload, m.service)
}

// StatusLost reports whether a plan's status is another than a grid bears: somebody
// else may have written it.
func (p Plan) StatusLost(grid Object) bool { return p.differs(decodeStatus(grid)) }

func (p Plan) differs(workload *apiv1.WorkloadGridStatus, service *apiv1.ServiceGridStatus) bool {
	switch {
	case p.Workload != nil:
		return workload == nil || !equality.Semantic.DeepEqual(p.Workload, workload)
	case p.Service != nil:
		return service == nil || !equality.Semantic.DeepEqual(p.Service, service)
	}
	return false
}

// CommitStatus notes that a plan's status stands: the next plan goes on from it.
func (x *Index) CommitStatus(p Plan) {
	m := x.records[p.Grid]
	if m == nil {
		return
	}
	if p.Workload != nil {
		m.workload = p.Workload
		if !p.removedAt.IsZero() {
			m.removedAt = p.removedAt
		}
	}
	if p.Service != nil {
		m.service = p.Service
	}
}

func (g *tracked) workloadStatus(p *Plan, s state, now time.Time) {
	st := &apiv1.WorkloadGridStatus{
		ObservedGeneration: g.generation, Revision: g.revision, Rollout: s.rollout, Gone: s.gone, LastRemoval: s.removed,
	}
	var last []metav1.Condition
	if g.workload != nil {
		last = g.workload.Conditions
	}
	var of []metav1.Condition
	if g.valid {
		g.count(st, p.Steps)
		st.Worst = worst(p.Steps)
		of = []metav1.Condition{ready(st), progressing(st, s, p.Steps), held(st, p.Steps)}
	} else {
		of = g.asBefore(st)
	}
	if st.Units+st.HeldUnits <= maxStates {
		st.States = g.states()
	}
	st.Conditions = conditions(last, g.generation, now, slices.Concat([]metav1.Condition{valid(p.Problems)}, of)...)
	p.Workload = st
	was := meta.FindStatusCondition(last, apiv1.Progressing)
	is := meta.FindStatusCondition(st.Conditions, apiv1.Progressing)
	if g.waves == nil || is.Reason == invalid || was != nil && was.Reason == invalid { // Valid tells it
		return
	}
	if was != nil && was.Reason != is.Reason || was == nil && is.Reason != complete {
		p.Events = append(p.Events, Event{Warning: is.Reason == Stopped, Reason: "Rollout" + is.Reason, Message: is.Message})
	}
}

// asBefore says of a grid of which nothing can be made what was said last: its children stay as they are.
func (g *tracked) asBefore(st *apiv1.WorkloadGridStatus) []metav1.Condition {
	why := metav1.Condition{Status: metav1.ConditionFalse, Reason: invalid, Message: "nothing is made of the grid until what Valid says is mended; its children stay as they are"}
	ready, progressing, held := why, why, held(st, nil)
	ready.Type, progressing.Type, progressing.Status = apiv1.Ready, apiv1.Progressing, metav1.ConditionTrue // which is False of a rollout that stands
	if last := g.workload; last != nil {
		st.Units, st.ReadyUnits, st.UpdatedUnits = last.Units, last.ReadyUnits, last.UpdatedUnits
		st.DarkUnits, st.HeldUnits, st.RefusedUnits, st.Worst = last.DarkUnits, last.HeldUnits, last.RefusedUnits, last.Worst
		if was := meta.FindStatusCondition(last.Conditions, apiv1.Held); was != nil {
			held = *was
		}
	}
	return []metav1.Condition{ready, progressing, held}
}

func (g *tracked) count(st *apiv1.WorkloadGridStatus, steps []Step) {
	for _, step := range steps {
		switch step.Action {
		case Refuse:
			st.RefusedUnits++
		case Hold, Remove:
			st.HeldUnits++
			continue
		}
		st.Units++
		if step.Ready {
			st.ReadyUnits++
		}
		if step.Updated {
			st.UpdatedUnits++
		}
		if step.Dark {
			st.DarkUnits++
		}
	}
}

// states is SuperEdge's status: that of every unit's workload.
func (g *tracked) states() map[string]apiv1.UnitState {
	states := map[string]apiv1.UnitState{}
	for unit := range g.children {
		if c := g.live(unit); g.owns(c) && unit != "" {
			states[unit] = c.state()
		}
	}
	return states
}

// severity is the order of the worst list.
var severity = map[string]int{"Refused": 0, "Held": 1, "Missing": 2, "NotReady": 3, "Outdated": 4, "Dark": 5}

func worst(steps []Step) []apiv1.UnitStatus {
	var list []apiv1.UnitStatus
	for _, step := range steps {
		if reason := step.Trouble(); reason != "" {
			list = append(list, apiv1.UnitStatus{Unit: step.Unit, Reason: reason, Message: Cut(step.Why)})
		}
	}
	slices.SortStableFunc(list, func(a, b apiv1.UnitStatus) int { return cmp.Compare(severity[a.Reason], severity[b.Reason]) })
	return list[:min(maxWorst, len(list))]
}

func valid(problems []topology.Problem) metav1.Condition {
	if len(problems) == 0 {
		return metav1.Condition{Type: apiv1.Valid, Status: metav1.ConditionTrue, Reason: "Valid"}
	}
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, strings.TrimPrefix(p.String(), p.Object+": "))
	}
	return metav1.Condition{Type: apiv1.Valid, Status: metav1.ConditionFalse, Reason: "Refused", Message: Cut(strings.Join(texts, "; "))}
}

// What Ready and Progressing say of a grid without units.
const (
	noUnits        = "NoUnits"
	noUnitsMessage = "no node has the unit key"
)

func ready(st *apiv1.WorkloadGridStatus) metav1.Condition {
	c := metav1.Condition{Type: apiv1.Ready, Status: metav1.ConditionFalse, Reason: "UnitsNotReady", Message: fmt.Sprintf("%d of %d units are ready and updated", min(st.ReadyUnits, st.UpdatedUnits), st.Units)}
	switch {
	case st.Units == 0:
		c.Reason, c.Message = noUnits, noUnitsMessage
	case st.ReadyUnits == st.Units && st.UpdatedUnits == st.Units:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "UnitsReady", ""
	}
	return c
}

// Why Progressing is False.
const (
	Stopped = "Stopped"
	Paused  = "Paused"
)

const (
	complete = "Complete"
	invalid  = "Invalid"
)

func progressing(st *apiv1.WorkloadGridStatus, s state, steps []Step) metav1.Condition {
	c := metav1.Condition{Type: apiv1.Progressing, Status: metav1.ConditionTrue, Reason: complete, Message: "every unit runs what the grid says, but for those that are dark or refused"}
	switch {
	case st.Units == 0:
		c.Reason, c.Message = noUnits, noUnitsMessage
	case s.stopped != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, Stopped, Cut(s.stopped)
	case s.paused:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, Paused, "spec.rollout.paused is true"
	case s.rollout != nil && s.pending > 0, underWay(s.rollout):
		c.Reason, c.Message = "InWaves", "the change goes to the units wave by wave"
	case slices.ContainsFunc(steps, Step.behind):
		c.Reason, c.Message = "Updating", "not every unit runs what the grid says yet"
	}
	return c
}

func held(st *apiv1.WorkloadGridStatus, steps []Step) metav1.Condition {
	if st.HeldUnits == 0 {
		return metav1.Condition{Type: apiv1.Held, Status: metav1.ConditionFalse, Reason: "NoneHeld"}
	}
	var units []string
	for _, step := range steps {
		if step.leaving() {
			units = append(units, step.Unit)
		}
	}
	return metav1.Condition{Type: apiv1.Held, Status: metav1.ConditionTrue, Reason: "UnitsGone", Message: Cut("workloads are kept for now: " + Short(units))}
}

// conditions keeps the times of those that stay as they were.
func conditions(last []metav1.Condition, generation int64, now time.Time, list ...metav1.Condition) []metav1.Condition {
	for i := range list {
		c := &list[i]
		c.ObservedGeneration, c.LastTransitionTime = generation, metav1.Time{Time: now.Truncate(time.Second)}
		if old := meta.FindStatusCondition(last, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return list
}

func (g *tracked) serviceStatus(p *Plan, now time.Time) {
	st := &apiv1.ServiceGridStatus{ObservedGeneration: g.generation}
	var last []metav1.Condition
	if g.service != nil {
		last = g.service.Conditions
	}
	switch {
	case len(p.Steps) > 0:
		st.Service = p.Steps[0].Name
	case !g.valid && g.service != nil: // it stays as it is
		st.Service = g.service.Service
	}
	st.Conditions = conditions(last, g.generation, now, valid(p.Problems))
	p.Service = st
}
