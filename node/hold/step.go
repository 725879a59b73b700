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
	// mentions are what slices were read to say.
	mentions map[topology.ObjectKey]mentions
}

// service returns what to use for a Service, nil where next's entry is as good
// as any.
func (s *step) service(key topology.ObjectKey) *made {
	was, _ := s.base.Services.Get(key)
	is, _ := s.next.Services.Get(key)
	switch {
	case is == nil || is.Service == nil:
		return nil // what somebody does to a Service is no verdict on its endpoints
	case commanded(was.Service, is.Service):
		delete(s.may, key) // for good: an endpoint that comes back is news
		return nil
	case is == was && s.made[key] == nil:
		return nil
	}
	m := &made{of: is}
	var list []wanted
	for _, w := range s.may[key] {
		id := w.id(key)
		if !s.keep(key, is, w) || !s.now.Before(s.release(id)) {
			continue
		}
		if _, had := s.since[id]; !had {
			s.since[id] = s.now
		}
		list, m.held = append(list, w), append(m.held, id)
	}
	if len(list) == 0 {
		return nil
	}
	if last := s.made[key]; last != nil && last.of == is && slices.Equal(last.held, m.held) {
		return last
	}
	m.entry = restored(is, list)
	return m
}

// commanded reports whether a Service names other pods than before, or is left
// to others: who changed that wants its endpoints to change.
func commanded(was, is *topology.Service) bool {
	other := was.Selector != is.Selector && was.Selector != 0 && is.Selector != 0
	return other || was.Foreign != is.Foreign
}

// wanted is an endpoint of base, in its slice, that is to be held.
type wanted struct {
	slice *topology.Slice
	*topology.Endpoint
}

func (w wanted) id(service topology.ObjectKey) Endpoint { return Endpoint{service, w.Addr, w.Node} }

func good(e *topology.Endpoint) bool { return e.Ready && !e.Terminating }

// keep reports whether an endpoint of base is no longer good, and the verdict
// is not to be believed yet.
func (s *step) keep(key topology.ObjectKey, is *topology.Entry, w wanted) bool {
	id, said := w.id(key), s.said(key, is)
	others := func(m mention) bool { return m.node != w.Node && s.here(m.node) && !s.had(key, w.Addr, m.node) }
	switch at := said.of(id.place()); {
	case at.good:
		s.spoke(id)
		return false
	case s.back[id], slices.ContainsFunc(said[w.Addr], others):
		return false
	case at.listed:
		return true
	}
	s.index.follow(s.next)
	return !s.replaced(key, w, is) && !slices.ContainsFunc(s.index.users[w.Addr], func(other topology.ObjectKey) bool {
		return other != key && s.newcomer(other, w)
	})
}

// spoke notes that an endpoint is ready by itself. Where it was held its kubelet
// has spoken, and what comes now is news.
func (s *step) spoke(id Endpoint) {
	delete(s.since, id)
	if s.wasHeld(id) {
		s.back[id] = true
		s.Reported(id.Node, s.now)
	}
}

func (s *step) wasHeld(id Endpoint) bool {
	m := s.made[id.Service]
	return m != nil && slices.Contains(m.held, id)
}

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
// on that node and at one of the ports: it is another pod's by now. At another
// port it may be that of the node, which all its pods with hostNetwork share.
func (s *step) newcomer(key topology.ObjectKey, w wanted) bool {
	is, _ := s.next.Services.Get(key)
	was, _ := s.base.Services.Get(key)
	had := nodesOf(was, w.Addr, w.slice.Ports)
	return slices.ContainsFunc(nodesOf(is, w.Addr, w.slice.Ports), func(node string) bool {
		return s.here(node) && !slices.Contains(had, node)
	})
}

// here reports whether an address on a node may be one of ours. Other units may
// have the same ranges, and what they do with an address says nothing of it.
func (s *step) here(node string) bool { return node == "" || s.nodes[node] }

// had reports whether a Service had an address on a node before the heal.
func (s *step) had(key topology.ObjectKey, addr netip.Addr, node string) bool {
	was, _ := s.base.Services.Get(key)
	return slices.Contains(nodesOf(was, addr, nil), node)
}

// nodesOf are the nodes on which a Service has an address at any of the ports.
func nodesOf(e *topology.Entry, addr netip.Addr, ports []topology.SlicePort) (list []string) {
	if e == nil {
		return nil
	}
	for _, slice := range e.Slices {
		if !meet(slice.Ports, ports) {
			continue
		}
		for i := range slice.Endpoints {
			if slice.Endpoints[i].Addr == addr {
				list = append(list, slice.Endpoints[i].Node)
			}
		}
	}
	return list
}

// meet reports whether two lists have a port of a protocol in common. One that
// names no port may be about any.
func meet(a, b []topology.SlicePort) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(p topology.SlicePort) bool {
		return slices.ContainsFunc(b, func(o topology.SlicePort) bool { return p.Protocol == o.Protocol && p.Port == o.Port })
	})
}

// restored is an entry in which the given endpoints are as they were: where
// they still are, or else in the slice where they were.
func restored(is *topology.Entry, list []wanted) *topology.Entry {
	edit := newEdit(is)
	out := &edit.entry
	var homeless []wanted
	for _, w := range list {
		found := false
		for i, slice := range out.Slices {
			for j := range slice.Endpoints {
				if o := &slice.Endpoints[j]; slice.IPv6 == w.slice.IPv6 && o.Addr == w.Addr && o.Node == w.Node {
					e := &edit.slice(i).Endpoints[j]
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
			slice := edit.slice(i)
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
	return out
}

// edit is a copy of an entry, with slices of its own where they are written to.
type edit struct {
	entry topology.Entry
	own   map[int]bool
}

func newEdit(of *topology.Entry) *edit {
	x := &edit{*of, map[int]bool{}}
	x.entry.Slices = slices.Clone(of.Slices)
	return x
}

// slice is the i-th one, to be written to.
func (x *edit) slice(i int) *topology.Slice {
	if !x.own[i] {
		slice := *x.entry.Slices[i]
		slice.Endpoints = slices.Clone(slice.Endpoints)
		x.entry.Slices[i], x.own[i] = &slice, true
	}
	return x.entry.Slices[i]
}
