package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/topology"
)

// Object is a Kubernetes object as unstructured JSON.
type Object = map[string]any

// Ref names an object.
type Ref struct{ Kind, Namespace, Name string }

// String is kind in lower case, namespace and name.
func (r Ref) String() string {
	return strings.ToLower(r.Kind) + " " + topology.ObjectKey{Namespace: r.Namespace, Name: r.Name}.String()
}

func compareRefs(a, b Ref) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	if c := strings.Compare(a.Kind, b.Kind); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// Guard holds back removals: a lost or mistyped label must not delete a site
// at once.
type Guard struct {
	Grace time.Duration // for a unit without nodes, and between two removals
	Share float64       // most of a grid's units that are removed at once
}

// DefaultGuard is five minutes, and a tenth of the units at once.
func DefaultGuard() Guard { return Guard{Grace: 5 * time.Minute, Share: 0.1} }

// Bind adds the guard's flags.
func (g *Guard) Bind(f *pflag.FlagSet) {
	f.DurationVar(&g.Grace, "removal-grace", g.Grace, "how long a unit without nodes keeps its workloads")
	f.Float64Var(&g.Share, "removal-share", g.Share, "most of a grid's units that are removed at once, 0 to 1; one is always allowed")
}

// Validate names the first flag that makes no sense.
func (g Guard) Validate() error {
	if g.Grace < 0 {
		return fmt.Errorf("--removal-grace %s: must not be negative", g.Grace)
	}
	if g.Share < 0 || g.Share > 1 {
		return fmt.Errorf("--removal-share %g: must be between 0 and 1", g.Share)
	}
	return nil
}

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
	// Version is the live child's metadata.resourceVersion. Print changes with
	// what the grid may have said of it, and not with its status.
	Version, Print string
	// Unmarked: held, and not annotated yet with the time it was first seen so.
	Unmarked bool
	// Unmark: the unit is back, that annotation is to go.
	Unmark bool

	live      bool      // the child is there
	changed   bool      // to be applied because the grid changed: waves hold it back
	appliedAt time.Time // of the live child, last
	wish      *wish     // nil unless Create, Update or Adopt
}

// Object renders what is to be applied now; nil unless the action is Create,
// Update or Adopt.
func (s Step) Object(now time.Time) Object {
	if s.wish == nil {
		return nil
	}
	return s.wish.render(now)
}

// Hash is the annotation Applied of what is to be applied, or "".
func (s Step) Hash() string {
	if s.wish == nil {
		return ""
	}
	return s.wish.hash
}

// Plan is what one grid wants.
type Plan struct {
	Grid     Ref
	UID      string
	UnitKey  string
	Steps    []Step // by unit, then those whose unit is gone
	Problems []topology.Problem
	// Revision is the ControllerRevision to apply, or nil; Expired are those
	// beyond the limit.
	Revision Object
	Expired  []string
	// Unused are entries of templatePool to be removed from the spec.
	Unused []string
	// Workload is the status of a DeploymentGrid or StatefulSetGrid, Service
	// that of a ServiceGrid; the other is nil, and both are when the grid is
	// being deleted.
	Workload *apiv1.WorkloadGridStatus
	Service  *apiv1.ServiceGridStatus
	// Ahead: the status holds state that must be written before the steps are
	// carried out, so that whoever takes over goes on from there.
	Ahead bool
	// Again is how long until the plan changes by time alone; 0 for never.
	Again time.Duration
	// News is what has happened to the rollout since the last plan.
	News []News
}

// News is something to tell about a grid.
type News struct {
	Warning bool
	Reason  string
	Message string
}

// again asks for another plan after d at the latest.
func (p *Plan) again(d time.Duration) {
	if d <= 0 {
		d = time.Millisecond
	}
	if p.Again == 0 || d < p.Again {
		p.Again = d
	}
}
