package node

import (
	"slices"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// problemIndex keeps the Services with problems as views go by, so that a
// change of one Service does not walk all of them.
type problemIndex struct {
	view *topology.View
	bad  map[topology.ObjectKey][]topology.Problem
}

func (p *problemIndex) next(v *topology.View, cat *render.Catalog) (list []topology.Problem, more int) {
	if p.bad == nil {
		p.bad = map[topology.ObjectKey][]topology.Problem{}
	}
	for key := range v.Changed(p.view) {
		if sv, ok := v.Services.Get(key); ok && len(sv.Problems) > 0 {
			p.bad[key] = sv.Problems
		} else {
			delete(p.bad, key)
		}
	}
	p.view = v
	list = slices.Concat(v.Problems, cat.Problems)
	keys := make([]topology.ObjectKey, 0, len(p.bad))
	for key := range p.bad {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, topology.ObjectKey.Compare)
	for _, key := range keys {
		list = append(list, p.bad[key]...)
	}
	if len(list) > maxListed {
		list, more = list[:maxListed], len(list)-maxListed
	}
	return list, more
}
