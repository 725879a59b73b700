package xds

import (
	"slices"

	"github.com/gridmesh/gridmesh/xds/render"
)

// room is for how many clusters there is room in an Envoy because it asked for them
// by name. It never gives one back, so a pod that dials every frontend once would
// fill its memory for as long as it runs; and one Service of many ports, dialled at
// each, would have the room of everybody else: one namespace gets half of it at most,
// and of the last quarter nothing where it has one.
type room struct {
	most   int               // clusters; 0: no bound
	of     map[string]string // cluster -> namespace
	spaces map[string]int    // namespace -> clusters
}

func newRoom(most int) room {
	return room{most: most, of: map[string]string{}, spaces: map[string]int{}}
}

// full reports whether a namespace gets no more.
func (r *room) full(namespace string) bool {
	all, own := len(r.of), r.spaces[namespace]
	return all >= r.most || own >= r.most/2 || all >= r.most-r.most/4 && own >= r.most/4
}

func (r *room) take(name, namespace string) {
	if _, has := r.of[name]; !has {
		r.of[name] = namespace
		r.spaces[namespace]++
	}
}

func (r *room) leave(name string) {
	namespace, has := r.of[name]
	if !has {
		return
	}
	delete(r.of, name)
	if r.spaces[namespace]--; r.spaces[namespace] == 0 {
		delete(r.spaces, namespace)
	}
}

// admit reports whether a name that Envoy asks for is answered for that. What it
// holds already, or gets anyhow, always is.
func (s *subscription) admit(cat *render.Catalog, name string, holds bool) bool {
	if s.room.most == 0 {
		return true
	}
	service, _ := cat.ServiceOf(s.typeURL, name)
	if !holds && !s.covered(cat, name) && s.room.full(service.Namespace) {
		return false
	}
	s.room.take(name, service.Namespace)
	return true
}

// admitted reports whether a name for which there was no room is preloaded by now:
// then it is Envoy's, and takes room for good.
func (s *subscription) admitted(cat *render.Catalog, name string) bool {
	if !s.covered(cat, name) {
		return false
	}
	delete(s.over, name)
	return s.admit(cat, name, true)
}

// heldFirst puts what Envoy holds before what it asks for beyond that, so that
// the bound does not depend on the order in which it names them.
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
