package grid

import (
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/kube/objects"
)

// Kinds are the kinds of objects that grids depend on, as a mirror watches them.
func Kinds() []objects.Kind {
	var list []objects.Kind
	for _, w := range plan.Watches() {
		list = append(list, objects.Kind{Resource: w.Resource, Kind: w.Kind, Selector: w.Selector})
	}
	return list
}
