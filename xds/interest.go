package xds

import (
	"slices"

	"github.com/gridmesh/gridmesh/xds/render"
)

// subscribes reports whether Envoy wants the name.
func (s *subscription) subscribes(cat *render.Catalog, name string) bool {
	return s.names[name] || s.covered(cat, name)
}

// covered reports whether Envoy gets the name without asking for it.
func (s *subscription) covered(cat *render.Catalog, name string) bool {
	return s.wildcard && cat.InWildcard(s.typeURL, name)
}

// concerns reports whether a change of the name may have to be sent.
func (s *subscription) concerns(cat *render.Catalog, name string) bool {
	_, holds := s.sent[name]
	return holds || s.subscribes(cat, name)
}

// full reports whether more was asked for by name than is answered. A pod that
// dials every frontend once would otherwise fill Envoy's memory for as long as
// it runs, for it never gives a name back.
func (s *subscription) full() bool { return s.limit > 0 && len(s.names)-len(s.over) > s.limit }

// heldFirst puts what Envoy holds before what it asks for beyond that, so that
// the limit does not depend on the order in which it names them.
func heldFirst(names []string, initial map[string]string) []string {
	if len(initial) == 0 {
		return names
	}
	list := slices.Clone(names)
	rank := func(name string) int {
		if _, holds := initial[name]; holds || name == "*" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b string) int { return rank(a) - rank(b) })
	return list
}
