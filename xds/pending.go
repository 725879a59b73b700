package xds

import (
	"maps"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/xds/render"
)

// mark marks a name dirty; force sends it even if Envoy holds its version.
func (s *subscription) mark(cat *render.Catalog, name string, force bool) {
	s.pending[name] = s.pending[name] || force
	s.measure(cat, name)
}

// markAll marks dirty everything that Envoy holds or asked for.
func (s *subscription) markAll(cat *render.Catalog) {
	if !s.started {
		return
	}
	for name := range s.sent {
		s.mark(cat, name, false)
	}
	for name := range s.names {
		s.mark(cat, name, false)
	}
	if s.wildcard {
		for _, name := range cat.Wildcard(s.typeURL) {
			s.mark(cat, name, false)
		}
	}
}

// retry sends what was refused once more, one by one: the cause may lie on the
// node, as a port that was taken, and be gone.
func (s *subscription) retry() {
	names := slices.Sorted(maps.Keys(s.rejected))
	clear(s.rejected)
	s.oneByOne = append(s.oneByOne, names...)
}

// take takes the names for the next response, as many as may be sent now.
func (s *subscription) take() []dirtyName {
	switch {
	case len(s.inflight) >= maxInflight, len(s.oneByOne) > 0 && len(s.inflight) > 0:
		return nil
	case len(s.oneByOne) > 0:
		name := s.oneByOne[0]
		s.oneByOne = s.oneByOne[1:]
		return []dirtyName{{name, true}}
	}
	return s.takePending()
}

type dirtyName struct {
	name  string
	force bool
}

func (s *subscription) takePending() []dirtyName {
	list := make([]dirtyName, 0, min(len(s.pending), maxBatchSize))
	for _, forced := range []bool{true, false} { // connections wait for what Envoy asks for
		for name, force := range s.pending {
			if len(list) == maxBatchSize {
				break
			}
			if force == forced {
				list = append(list, dirtyName{name, force})
				delete(s.pending, name)
			}
		}
	}
	slices.SortFunc(list, func(a, b dirtyName) int { return strings.Compare(a.name, b.name) })
	return list
}
