package hold

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// step is one Apply.
type step struct {
	*Hold
	next *topology.Snapshot
	now  time.Time
}

// service returns the entry to use for a Service, false where next's is as
// good as any.
func (s *step) service(key topology.ObjectKey) (made, bool) {
	was, _ := s.base.Services.Get(key)
	is, _ := s.next.Services.Get(key)
	switch {
	case is == nil || is.Service == nil:
		return made{}, false // what somebody does to a Service is no verdict on its endpoints
	case is == was && len(s.made[key].held) == 0:
		return made{}, false
	}
	var list []wanted
	for _, w := range s.may[key] {
		if s.now.Before(s.release(w.Node)) && s.keep(key, is, w) {
			list = append(list, w)
		}
	}
	if len(list) == 0 {
		return made{}, false
	}
	m := made{of: is}
	for _, w := range list {
		m.held = append(m.held, endpoint{key, w.Addr, w.Node})
	}
	if last, ok := s.made[key]; ok && last.of == is && slices.Equal(last.held, m.held) {
		return last, true
	}
	m.entry = restored(is, list)
	return m, true
}

// wanted is an endpoint of base, in its slice, that is to be held.
type wanted struct {
	slice *topology.Slice
	*topology.Endpoint
}

func good(e *topology.Endpoint) bool { return e.Ready && !e.Terminating }

// keep reports whether an endpoint of base is no longer good, and the verdict
// is not to be believed yet.
func (s *step) keep(key topology.ObjectKey, is *topology.Entry, w wanted) bool {
	id := endpoint{key, w.Addr, w.Node}
	var found, ready, foreign bool
	for _, slice := range is.Slices {
		if slice.IPv6 != w.slice.IPv6 {
			continue
		}
		for i := range slice.Endpoints {
			switch e := &slice.Endpoints[i]; {
			case e.Addr != w.Addr:
			case e.Node == w.Node:
				found = true
				ready = ready || good(e)
			default:
				foreign = foreign || s.here(e.Node) && !s.had(key, w.Addr, e.Node)
			}
		}
	}
	switch {
	case ready:
		if s.wasHeld(id) { // its kubelet has spoken; what comes now is news
			s.back[id] = true
			s.Reported(w.Node, s.now)
		}
		return false
	case s.back[id], foreign:
		return false
	case found:
		return true
	}
	s.index.follow(s.next)
	return !s.replaced(key, w, is) && !slices.ContainsFunc(s.index.users[w.Addr], func(other topology.ObjectKey) bool {
		return other != key && s.newcomer(other, w.Addr)
	})
}

func (s *step) wasHeld(id endpoint) bool { return slices.Contains(s.made[id.service].held, id) }

// replaced reports whether the slice of an endpoint that is gone leads to other
// ports now, or is another Service's: the endpoint cannot go back there.
func (s *step) replaced(key topology.ObjectKey, w wanted, is *topology.Entry) bool {
	if owner, there := s.index.owner[w.slice.Key]; there && owner != key {
		return true
	}
	i := slices.IndexFunc(is.Slices, func(o *topology.Slice) bool { return o.Key == w.slice.Key })
	return i >= 0 && (is.Slices[i].IPv6 != w.slice.IPv6 || !slices.Equal(is.Slices[i].Ports, w.slice.Ports))
}

// newcomer reports whether a Service has an address now that it had not before,
// on that node: it is another pod's by now.
func (s *step) newcomer(key topology.ObjectKey, addr netip.Addr) bool {
	is, _ := s.next.Services.Get(key)
	return slices.ContainsFunc(nodesOf(is, addr), func(node string) bool {
		return s.here(node) && !s.had(key, addr, node)
	})
}

// here reports whether an address on a node may be one of ours. Other units may
// have the same ranges, and what they do with an address says nothing of it.
func (s *step) here(node string) bool { return node == "" || s.nodes[node] }

// had reports whether a Service had an address on a node before the heal.
func (s *step) had(key topology.ObjectKey, addr netip.Addr, node string) bool {
	was, _ := s.base.Services.Get(key)
	return slices.Contains(nodesOf(was, addr), node)
}

// nodesOf are the nodes on which a Service has an address.
func nodesOf(e *topology.Entry, addr netip.Addr) (list []string) {
	if e == nil {
		return nil
	}
	for _, slice := range e.Slices {
		for i := range slice.Endpoints {
			if slice.Endpoints[i].Addr == addr {
				list = append(list, slice.Endpoints[i].Node)
			}
		}
	}
	return list
}

// restored is an entry in which the given endpoints are as they were: where
// they still are, or else in the slice where they were.
func restored(is *topology.Entry, list []wanted) *topology.Entry {
	out := *is
	out.Slices = slices.Clone(is.Slices)
	own := map[int]bool{} // slices of ours, that may be written to
	edit := func(i int) *topology.Slice {
		if !own[i] {
			slice := *out.Slices[i]
			slice.Endpoints = slices.Clone(slice.Endpoints)
			out.Slices[i], own[i] = &slice, true
		}
		return out.Slices[i]
	}
	var homeless []wanted
	for _, w := range list {
		found := false
		for i, slice := range out.Slices {
			for j := range slice.Endpoints {
				if o := &slice.Endpoints[j]; slice.IPv6 == w.slice.IPv6 && o.Addr == w.Addr && o.Node == w.Node {
					e := &edit(i).Endpoints[j]
					e.Ready, e.Serving, e.Terminating = w.Ready, w.Serving, w.Terminating
					found = true
				}
			}
		}
		if !found {
			homeless = append(homeless, w)
		}
	}
	fresh := map[topology.ObjectKey]*topology.Slice{}
	for _, w := range homeless {
		if i := slices.IndexFunc(out.Slices, func(o *topology.Slice) bool { return o.Key == w.slice.Key }); i >= 0 {
			slice := edit(i)
			slice.Endpoints = append(slice.Endpoints, *w.Endpoint)
			continue
		}
		slice := fresh[w.slice.Key]
		if slice == nil {
			copied := *w.slice
			copied.Endpoints = nil
			slice = &copied
			fresh[w.slice.Key] = slice
		}
		slice.Endpoints = append(slice.Endpoints, *w.Endpoint)
	}
	for _, slice := range fresh {
		out.Slices = append(out.Slices, slice)
	}
	slices.SortFunc(out.Slices, func(a, b *topology.Slice) int { return a.Key.Compare(b.Key) })
	return &out
}
