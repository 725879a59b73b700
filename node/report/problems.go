package report

import (
	"cmp"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// ProblemIndex keeps the Services with problems as views go by, so that a
// change of one Service does not walk all of them.
type ProblemIndex struct {
	view    *topology.View
	bad     map[topology.ObjectKey][]topology.Problem
	asks    map[topology.ObjectKey]int // notices of each Service that has any
	notices int                        // of all
}

// Fill takes a view, its catalog, and what else is a problem, and tells a report.
func (p *ProblemIndex) Fill(r *Report, v *topology.View, cat *render.Catalog, others []topology.Problem) {
	r.Problems, r.More = p.next(v, cat, others)
	r.Notices = p.notices + len(cat.Notices)
}

// next takes a view, its catalog, and what else is a problem.
func (p *ProblemIndex) next(v *topology.View, cat *render.Catalog, others []topology.Problem) (list []topology.Problem, more int) {
	if p.bad == nil {
		p.bad, p.asks = map[topology.ObjectKey][]topology.Problem{}, map[topology.ObjectKey]int{}
	}
	for key := range v.Changed(p.view) {
		p.take(key, v)
	}
	p.view = v
	list = slices.Concat(v.Problems, cat.Problems, others)
	keys := make([]topology.ObjectKey, 0, len(p.bad))
	for key := range p.bad {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, topology.ObjectKey.Compare)
	for _, key := range keys {
		list = append(list, p.bad[key]...)
	}
	// What is lost comes first, for the rest may be cut.
	slices.SortStableFunc(list, func(a, b topology.Problem) int {
		return cmp.Compare(min(b.Loss, 1), min(a.Loss, 1))
	})
	if len(list) > maxListed {
		list, more = list[:maxListed], len(list)-maxListed
	}
	return list, more
}

// take takes what a view says of one Service.
func (p *ProblemIndex) take(key topology.ObjectKey, v *topology.View) {
	p.notices -= p.asks[key]
	delete(p.bad, key)
	delete(p.asks, key)
	sv, ok := v.Services.Get(key)
	if !ok {
		return
	}
	if len(sv.Problems) > 0 {
		p.bad[key] = sv.Problems
	}
	if n := len(sv.Notices()); n > 0 {
		p.asks[key] = n
		p.notices += n
	}
}
