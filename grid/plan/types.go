package plan

import (
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Object is a Kubernetes object as unstructured JSON.
type Object = map[string]any

// World is all that the grids of one cluster depend on.
type World struct {
	Grids    []Object // DeploymentGrids, StatefulSetGrids, ServiceGrids
	Nodes    []Object
	Children []Object // Deployments, StatefulSets and Services
}

// Guard holds back removals: a lost or mistyped label must not delete a site
// at once.
type Guard struct {
	Grace time.Duration // for a unit without nodes
	Share float64       // most of a grid's units that are removed at once
}

// DefaultGuard is five minutes, and a tenth of the units at once.
func DefaultGuard() Guard { return Guard{Grace: 5 * time.Minute, Share: 0.1} }

// Action is what happens to a child.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Keep   Action = "keep"   // as it is
	Adopt  Action = "adopt"  // of another controller, by its labels; pods stay
	Hold   Action = "hold"   // its unit is gone; kept for now
	Remove Action = "remove" // its unit is gone
	Refuse Action = "refuse" // cannot be made; see Why
)

// Step is one child of a grid.
type Step struct {
	Unit   string // "" for the Service of a ServiceGrid
	Nodes  int    // of the unit
	Kind   string // Deployment, StatefulSet or Service
	Name   string
	Action Action
	Why    string
	// Object is what is to be applied; nil unless Create, Update or Adopt.
	Object Object
	// Unmarked: held, and not annotated yet with the time it was first seen so.
	Unmarked bool
	// Wait is how long a held child has left; 0 where others are in its way.
	Wait time.Duration
	// Unmark: the unit is back, that annotation is to go.
	Unmark bool
}

// Plan is what one grid wants.
type Plan struct {
	Kind     string
	Key      topology.ObjectKey
	UnitKey  string
	Steps    []Step // by unit
	Problems []topology.Problem
}
