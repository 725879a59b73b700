package plan

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/topology"
)

// Action is what happens to a child.
type Action string

// The actions.
const (
	Create  Action = "create"
	Update  Action = "update"
	Keep    Action = "keep"    // as it is
	Adopt   Action = "adopt"   // of another controller, by its labels; pods stay
	Wait    Action = "wait"    // its turn in the rollout comes later; see Why
	Hold    Action = "hold"    // its unit is gone; kept for now
	Remove  Action = "remove"  // its unit is gone
	Release Action = "release" // its label names the grid no longer; it stays, without an owner
	Refuse  Action = "refuse"  // cannot be made; see Why
)

// Step is one child of a grid.
type Step struct {
	Unit   string // "" for the Service of a ServiceGrid
	Nodes  int    // of the unit
	Kind   string // Deployment, StatefulSet or Service
	Name   string
	Action Action
	Why    string
	// Ready: the workload has all its replicas. Updated: it runs what the grid
	// says. Dark: no node of the unit is ready.
	Ready, Updated, Dark bool
	// Mixed: new pods are not ready, and old ones serve instead.
	Mixed bool
	// Version is the live child's metadata.resourceVersion.
	Version string
	// Over is what somebody else changed where the grid did not: the path of a
	// field, or OverAll where the child is to be made. To write it again and again
	// is a fight.
	Over string
	// Unmarked: held, and not annotated yet with the time it was first seen so.
	Unmarked bool
	// Unmark: the unit is back, that annotation is to go, whatever the action.
	Unmark bool

	// Size is that of the child's text, in bytes, as it is or is to be.
	Size int

	live      bool      // the child is there
	changed   bool      // to be applied because the grid changed: waves hold it back
	early     bool      // to be made before the turn of its unit
	stuck     bool      // the change failed in its unit before
	ending    bool      // the child is being deleted, and is made anew: what failed there may be cured by that
	brief     bool      // of a unit that came and went
	appliedAt time.Time // of the live child, last
	members   *members  // of the unit; nil for none
	desired   *desired  // nil unless Create, Update or Adopt
}

// OverAll is Step.Over of a child that is not there.
const OverAll = "all"

// Object renders what is to be applied now; nil unless the action is Create,
// Update or Adopt.
func (s Step) Object(now time.Time) Object {
	if s.desired == nil {
		return nil
	}
	return s.desired.render(now)
}

// Hash is the annotation Applied of what is to be applied, or "".
func (s Step) Hash() string {
	if s.desired == nil {
		return ""
	}
	return s.desired.hash
}

// Settled is what a child is to be annotated with (names.Settled) that came out
// of applying Object, where that differs all the same; or "".
func (s Step) Settled(result Object) string {
	if s.desired == nil {
		return ""
	}
	list := s.desired.drifted(readChild(result))
	if len(list) == 0 {
		return ""
	}
	return s.desired.settled(list)
}

// Writes reports whether the step calls for a write.
func (s Step) Writes() bool {
	switch s.Action {
	case Create, Update, Adopt, Remove, Release:
		return true
	}
	return s.Unmark || s.Unmarked
}

// leaving reports whether the child's unit is gone.
func (s Step) leaving() bool { return s.Action == Hold || s.Action == Remove }

// Key is what failures of it are remembered by: the unit, and of a child that leaves its
// unit the child, for a unit may have several. No unit has a slash.
func (s Step) Key() string {
	if s.leaving() {
		return s.Kind + "/" + s.Name
	}
	return s.Unit
}

// asTold reports whether a child bears what the grid says, whatever became of it since; or
// is to be adopted as it is.
func (s Step) asTold() bool {
	return !s.changed && (s.Action == Keep || s.Action == Update || s.Action == Adopt)
}

// behind reports whether the child is not what the grid says, and could be.
func (s Step) behind() bool {
	return !s.leaving() && !s.Updated && !s.Dark && s.Action != Refuse
}

func (s *Step) wait(why string) {
	if s.Why = why; !s.early { // else it is made all the same
		s.Action, s.desired = Wait, nil
	}
}

// Trouble is what is wrong with a unit, in a word, or "".
func (s Step) Trouble() string {
	switch {
	case s.Action == Refuse:
		return "Refused"
	case s.leaving():
		return "Held"
	case s.Dark:
		return "Dark"
	case s.Action == Create || !s.live && s.Action != Keep:
		return "Missing"
	case !s.Ready:
		return "NotReady"
	case !s.Updated:
		return "Outdated"
	}
	return ""
}

// Plan is what one grid wants.
type Plan struct {
	Grid    Ref
	UID     string
	UnitKey string
	// Generation is the grid's metadata.generation: another one is another spec.
	Generation int64
	Steps      []Step // by unit, then those whose unit is gone
	Problems   []topology.Problem
	// Revision is the ControllerRevision to apply, or nil; Expired are those
	// beyond the limit.
	Revision *NewRevision
	Expired  []string
	// Unused are entries of templatePool to be removed from the spec.
	Unused []string
	// Workload is the status of a DeploymentGrid or StatefulSetGrid, Service
	// that of a ServiceGrid; the other is nil, and both are when the grid is
	// being deleted.
	Workload *apiv1.WorkloadGridStatus
	Service  *apiv1.ServiceGridStatus
	// StatusFirst: the status holds state that must be written before the steps
	// are carried out, so that whoever takes over goes on from there.
	StatusFirst bool
	// RequeueAfter is how long until the plan changes by time alone; 0 for never.
	RequeueAfter time.Duration
	// Events are what has happened to the rollout since the last plan, and Notes what is
	// to be told once for as long as it stands.
	Events, Notes []Event

	removedAt time.Time // now, where children are removed; else zero
}

// NewRevision is a ControllerRevision that is to be.
type NewRevision struct {
	grid          *grid
	number, first int64
}

// Size is that of its text, in bytes.
func (r *NewRevision) Size() int { return r.grid.content.size() }

// Object renders it.
func (r *NewRevision) Object() Object {
	g := r.grid
	return Object{
		"apiVersion": "apps/v1", "kind": RevisionKind,
		"metadata": Object{
			"namespace": g.ref.Namespace, "name": g.revision, "labels": Object{names.GridSelector: g.ref.Name},
			"ownerReferences": []any{g.ownerReference()}, "annotations": Object{names.FirstRevision: strconv.FormatInt(r.first, 10)},
		},
		"data": Object{"spec": g.content.open()}, "revision": r.number,
	}
}

// Event is something to record about a grid.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// Status is the status to write, or nil.
func (p Plan) Status() any {
	switch {
	case p.Workload != nil:
		return p.Workload
	case p.Service != nil:
		return p.Service
	}
	return nil
}

// Conditions are those of the status to write.
func (p Plan) Conditions() []metav1.Condition {
	switch {
	case p.Workload != nil:
		return p.Workload.Conditions
	case p.Service != nil:
		return p.Service.Conditions
	}
	return nil
}

// requeue asks for another plan after d at the latest.
func (p *Plan) requeue(d time.Duration) {
	d = max(d, time.Millisecond)
	if p.RequeueAfter == 0 || d < p.RequeueAfter {
		p.RequeueAfter = d
	}
}

// Failure is why the child of a unit could not be written.
type Failure struct {
	Text string
	// Final: the API server refused what was asked for, and would again.
	Final bool
	// Since is when the writes began to fail.
	Since time.Time
	// Hash is that of the step (Step.Hash).
	Hash string
}

// Dispute is about a child that others change again and again.
type Dispute struct {
	Over  string    // what they change (Step.Over)
	Since time.Time // when it was first written as it is to be
}

// earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
