package report

import (
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// ProblemIndex keeps the Services with problems as views go by, so that a
// change of one Service does not walk all of them.
type ProblemIndex struct {
	view    *topology.View
	bad     map[topology.ObjectKey][]topology.Problem
	first   []topology.Problem         // of bad, as they are listed; nil: it changed
	more    int                        // of bad, that are not
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
	if p.first == nil {
		p.first, p.more = listed(p.byKey()...)
	}
	list, more = listed(v.Problems, cat.Problems, others, p.first)
	return list, more + p.more
}

// byKey are the problems of each Service that has any.
func (p *ProblemIndex) byKey() (lists [][]topology.Problem) {
	for _, key := range slices.SortedFunc(maps.Keys(p.bad), topology.ObjectKey.Compare) {
		lists = append(lists, p.bad[key])
	}
	return lists
}

// listed are the first problems of several lists, those of what is lost before all others, for the rest is cut.
func listed(lists ...[]topology.Problem) (list []topology.Problem, more int) {
	for _, lost := range []bool{true, false} {
		for _, problems := range lists {
			for _, p := range problems {
				switch {
				case p.Loss != topology.LostNothing != lost:
				case len(list) < maxListed:
					list = append(list, p)
				default:
					more++
				}
			}
		}
	}
	return list, more
}

// take takes what a view says of one Service.
func (p *ProblemIndex) take(key topology.ObjectKey, v *topology.View) {
	sv, ok := v.Services.Get(key)
	if was := p.bad[key]; ok && !slices.Equal(was, sv.Problems) || !ok && len(was) > 0 {
		p.first = nil
	}
	p.notices -= p.asks[key]
	delete(p.bad, key)
	delete(p.asks, key)
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
