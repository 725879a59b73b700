package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// A node that holds has endpoints of its own unit as they were before an outage
// (node/hold). Here is the most that it may make of that, from the hold's
// documentation and not from its code:
//
//   - an endpoint that it knew as ready before stays so, whatever it was told
//     since: a mixture of versions from before the outage on;
//   - so does one that a Service which was made meanwhile lists as not ready,
//     while another one of its namespace is held there.

// place is where a program is.
type place struct {
	addr netip.Addr
	node string
}

// held are places, with the ports of the slices that were ready there.
type held map[place][][]topology.SlicePort

// String is for questions: the same places and ports, the same text.
func (l held) String() string {
	var list []string
	for at, ports := range l {
		list = append(list, fmt.Sprint(at.addr, " on ", at.node, " ", ports))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// has reports whether an endpoint of a slice is held: at no other ports.
func (l held) has(s *topology.Slice, e topology.Endpoint) bool {
	return slices.ContainsFunc(l[place{e.Addr, e.Node}], func(ports []topology.SlicePort) bool {
		return !slices.ContainsFunc(s.Ports, func(p topology.SlicePort) bool {
			return !slices.ContainsFunc(ports, func(o topology.SlicePort) bool { return o.Protocol == p.Protocol && o.Port == p.Port })
		})
	})
}

// in is a version whose endpoints at these places are ready.
func (l held) in(v version) version {
	if v.slice == nil || len(l) == 0 {
		return v
	}
	s := *v.slice
	s.Endpoints = slices.Clone(s.Endpoints)
	for i, e := range s.Endpoints {
		if l.has(&s, e) {
			s.Endpoints[i].Ready, s.Endpoints[i].Serving, s.Endpoints[i].Terminating = true, true, false
		}
	}
	v.slice = &s
	return v
}

// judged is a node in a span.
type judged struct {
	h *History
	t *Told
	Span
}

// widest is the window of all that counts.
func (j judged) widest() window {
	w := window{h: j.h, t: j.t, from: j.From, to: j.To}
	if !j.Held.IsZero() && j.Held.Before(w.from) {
		w.from = j.Held
	}
	return w
}

// leads reports whether a Service may lead a node to an endpoint, by what it was
// told or by what it holds.
func (j judged) leads(key topology.ObjectKey, f topology.Frontend, is func(topology.Target) bool, what string) bool {
	if (window{h: j.h, t: j.t, from: j.From, to: j.To}).allowed(key, f, is, what) {
		return true
	}
	if j.Held.IsZero() {
		return false
	}
	w := j.widest()
	near := w.near(key)
	if w.allowed(key, f, func(to topology.Target) bool { return is(to) && slices.Contains(near, to.Node) }, fmt.Sprint("held ", what, near)) {
		return true
	}
	if w.held = w.elsewhere(key); len(w.held) == 0 {
		return false
	}
	return w.allowed(key, f, func(to topology.Target) bool {
		return is(to) && len(w.held[place{to.Addr.Addr(), to.Node}]) > 0
	}, fmt.Sprint("as elsewhere ", what, w.held))
}

// elsewhere are the places where another Service of the namespace may be held:
// it was ready there, and is listed as not ready since. None for a Service that
// was there all along, which has a word of its own.
func (w window) elsewhere(key topology.ObjectKey) held {
	if !w.some(ID{Service, key}, func(v version) bool { return v.service == nil }) {
		return nil
	}
	out := held{}
	for id := range w.h.objects {
		if id.Kind != Slice || id.Namespace != key.Namespace {
			continue
		}
		for _, v := range w.versions(id) {
			if v.slice == nil || v.slice.Service == key.Name {
				continue
			}
			other := topology.ObjectKey{Namespace: key.Namespace, Name: v.slice.Service}
			near := w.near(other)
			for _, e := range v.slice.Endpoints {
				at := place{e.Addr, e.Node}
				if e.Ready && !e.Terminating && slices.Contains(near, e.Node) && w.denied(other, at, v.at) {
					out[at] = append(out[at], v.slice.Ports)
				}
			}
		}
	}
	return out
}

// denied reports whether slices of a Service say after a time that a place is
// not ready, or may have said so unseen.
func (w window) denied(key topology.ObjectKey, at place, since time.Time) bool {
	if w.gapped() {
		return true
	}
	for id := range w.h.objects {
		if id.Kind == Slice && id.Namespace == key.Namespace && w.some(id, func(v version) bool {
			return v.slice != nil && v.slice.Service == key.Name && v.at.After(since) &&
				slices.ContainsFunc(v.slice.Endpoints, func(e topology.Endpoint) bool { return place{e.Addr, e.Node} == at && !e.Ready })
		}) {
			return true
		}
	}
	return false
}

// near are the nodes that may have been in the unit, as a Service's keys have
// it, sorted: endpoints on others are never held.
func (w window) near(key topology.ObjectKey) []string {
	list, labels := []string{w.t.node}, w.labels(key)
	own := w.versions(ID{Node, topology.ObjectKey{Name: w.t.node}})
	for id := range w.h.objects {
		if id.Kind == Node && id.Name != w.t.node && w.some(id, func(v version) bool {
			return slices.ContainsFunc(own, func(o version) bool { return share(v.node, o.node, labels) })
		}) {
			list = append(list, id.Name)
		}
	}
	slices.Sort(list)
	return list
}

func share(a, b *topology.Node, labels []string) bool {
	return a != nil && b != nil && slices.ContainsFunc(labels, func(l string) bool { return a.Labels[l] != "" && a.Labels[l] == b.Labels[l] })
}

// labels make a Service's units: its own keys, or without any those of all
// Services of its namespace.
func (w window) labels(key topology.ObjectKey) (list []string) {
	keyless := false
	for _, v := range w.versions(ID{Service, key}) {
		if v.service != nil {
			own, none := unitKeys(v.service)
			list, keyless = append(list, own...), keyless || none
		}
	}
	for id := range w.h.objects {
		if !keyless || id.Kind != Service || id.Namespace != key.Namespace {
			continue
		}
		for _, v := range w.versions(id) {
			if v.service != nil {
				own, _ := unitKeys(v.service)
				list = append(list, own...)
			}
		}
	}
	return list
}

// unitKeys are the labels that make a Service's units; none: it has none, and
// is not closed to the node for a mistake.
func unitKeys(s *topology.Service) (list []string, none bool) {
	keys := topology.ParseKeys(s.TopologyKeys)
	switch {
	case len(keys.List) > 0:
		return keys.List, false
	case s.GridKey != "":
		return []string{s.GridKey}, false
	}
	return nil, keys.Mode != topology.Malformed
}
