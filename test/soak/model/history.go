package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Kind is a kind of object.
type Kind int

// The kinds that routing depends on.
const (
	Service Kind = iota
	Slice
	Node
)

// ID is an object's name.
type ID struct {
	Kind Kind
	topology.ObjectKey
}

func (id ID) String() string {
	return [...]string{"service", "slice", "node"}[id.Kind] + " " + strings.TrimPrefix(id.ObjectKey.String(), "/")
}

// version is what an object was from some time on; nothing set: it was not there.
type version struct {
	at      time.Time
	service *topology.Service
	slice   *topology.Slice
	node    *topology.Node
}

// History is every version of every object that the API server has had.
type History struct {
	labels  []string // of nodes, which matter
	objects map[ID][]version
	gaps    []gap
	known   map[string]bool // what Allowed has said, by its question
}

// gap is a time of which versions may be missing.
type gap struct{ from, to time.Time }

// NewHistory begins a history in which those labels of nodes matter.
func NewHistory(labels ...string) *History {
	return &History{labels: labels, objects: map[ID][]version{}, known: map[string]bool{}}
}

// SetService notes what a Service is from now on; nil: it is not there.
func (h *History) SetService(at time.Time, key topology.ObjectKey, s *topology.Service) {
	h.add(ID{Service, key}, version{at: at, service: s})
}

// SetSlice is SetService of a slice.
func (h *History) SetSlice(at time.Time, key topology.ObjectKey, s *topology.Slice) {
	h.add(ID{Slice, key}, version{at: at, slice: s})
}

// SetNode is SetService of a node.
func (h *History) SetNode(at time.Time, name string, n *topology.Node) {
	h.add(ID{Node, topology.ObjectKey{Name: name}}, version{at: at, node: n})
}

// Missed notes that between two times versions may have come and gone unseen.
func (h *History) Missed(from, to time.Time) { h.gaps = append(h.gaps, gap{from, to}) }

func (h *History) add(id ID, v version) {
	list := h.objects[id]
	if list == nil {
		list = []version{{}} // before it was heard of it was not there
	}
	if !h.equal(list[len(list)-1], v) {
		list = append(list, v)
	}
	h.objects[id] = list
}

func (h *History) equal(a, b version) bool {
	switch {
	case (a.service == nil) != (b.service == nil), (a.slice == nil) != (b.slice == nil), (a.node == nil) != (b.node == nil):
		return false
	case a.service != nil:
		return a.service.Equal(b.service)
	case a.slice != nil:
		return a.slice.Equal(b.slice)
	case a.node != nil:
		return !slices.ContainsFunc(h.labels, func(key string) bool { return a.node.Labels[key] != b.node.Labels[key] })
	}
	return true
}

// Span is when a node did something.
type Span struct {
	From time.Time // what it was told by then it had in force
	To   time.Time // what the API server had after that it cannot have known
	// Held is From for endpoints of its own unit, where it may have held these as
	// they were before an outage; zero: it held nothing.
	Held time.Time
}

// Allowed reports whether a node may be answered by an endpoint at a frontend:
// whether any mixture of versions that it may have in force at the time allows
// it, or what it may hold does.
func (h *History) Allowed(t *Told, f topology.Frontend, end netip.AddrPort, s Span) bool {
	j := judged{h, t, s}
	for _, key := range j.widest().at(f) {
		if j.leads(key, f, func(to topology.Target) bool { return to.Addr == end }, end.String()) {
			return true
		}
	}
	return false
}

// AllowedNode reports whether a node may use any endpoint on another node, by
// any frontend.
func (h *History) AllowedNode(t *Told, other string, s Span) bool {
	j := judged{h, t, s}
	for id := range h.objects {
		if id.Kind != Service {
			continue
		}
		for _, f := range j.widest().frontends(id) {
			if j.leads(id.ObjectKey, f, func(to topology.Target) bool { return to.Node == other }, other) {
				return true
			}
		}
	}
	return false
}

// NodeMay reports whether what a node knows of a Node may have been so.
func (h *History) NodeMay(t *Told, node string, from, to time.Time, is func(*topology.Node) bool) bool {
	return window{h: h, t: t, from: from, to: to}.some(ID{Node, topology.ObjectKey{Name: node}}, func(v version) bool { return v.node != nil && is(v.node) })
}

// window is a time of a history, as one node sees it.
type window struct {
	h        *History
	t        *Told
	from, to time.Time
	// held are places of endpoints that are taken for ready; nil: as they are.
	held held
}

// candidates are the places of the versions that may be in force.
func (w window) candidates(id ID) (list []int) {
	all := w.h.objects[id]
	for i := w.t.since(id, w.from, w.to); i < len(all) && !all[i].at.After(w.to); i++ {
		list = append(list, i)
	}
	return list
}

// versions are those of candidates.
func (w window) versions(id ID) []version {
	list := w.candidates(id)
	if len(list) == 0 {
		return nil
	}
	return w.h.objects[id][list[0] : list[len(list)-1]+1]
}

func (w window) some(id ID, is func(version) bool) bool {
	return slices.ContainsFunc(w.versions(id), is)
}

// at are the Services that may have had a frontend's address or, where that is of a node
// port, that port, in order.
func (w window) at(f topology.Frontend) (list []topology.ObjectKey) {
	for id := range w.h.objects {
		if id.Kind == Service && w.some(id, func(v version) bool {
			return v.service != nil && (slices.Contains(v.service.ClusterIPs, f.Addr) || f.Addr.IsUnspecified() && slices.Contains(nodePorts(v.service), f))
		}) {
			list = append(list, id.ObjectKey)
		}
	}
	slices.SortFunc(list, topology.ObjectKey.Compare)
	return list
}

// nodePorts are a Service's: at the unspecified address, as in topology.
func nodePorts(s *topology.Service) (list []topology.Frontend) {
	for _, ip := range s.ClusterIPs {
		addr := netip.IPv4Unspecified()
		if ip.Is6() {
			addr = netip.IPv6Unspecified()
		}
		for _, p := range s.Ports {
			if p.NodePort != 0 {
				list = append(list, topology.Frontend{Addr: addr, Port: p.NodePort, Protocol: p.Protocol})
			}
		}
	}
	return list
}

func (w window) frontends(id ID) (list []topology.Frontend) {
	for _, i := range w.candidates(id) {
		s := w.h.objects[id][i].service
		if s == nil {
			continue
		}
		for _, ip := range s.ClusterIPs {
			for _, p := range s.Ports {
				list = append(list, topology.Frontend{Addr: ip, Port: p.Port, Protocol: p.Protocol})
			}
		}
		list = append(list, nodePorts(s)...)
	}
	return list
}

// mixtures bounds what is tried. What has more is taken for allowed.
const mixtures = 1 << 12

// allowed tries every mixture of a Service, its slices and the nodes.
func (w window) allowed(key topology.ObjectKey, f topology.Frontend, is func(topology.Target) bool, what string) bool {
	ids, choices := w.choices(key)
	question := fmt.Sprint(w.t.node, f, what, ids, choices)
	if answer, ok := w.h.known[question]; ok {
		return answer
	}
	total := 1
	for _, c := range choices {
		if len(c) == 0 {
			return false // the node cannot have it yet
		}
		if total *= len(c); total > mixtures {
			return true
		}
	}
	answer := false
	for n := range total {
		b := topology.NewBuilder()
		for i, id := range ids {
			w.held.in(w.h.objects[id][choices[i][n%len(choices[i])]]).put(b)
			n /= len(choices[i])
		}
		if leads(topology.See(b.Build(), w.t.node, w.t.Options), key, f, is) {
			answer = true
			break
		}
	}
	w.h.known[question] = answer
	return answer
}

// choices are what a Service's view depends on, in order, and which versions
// of each there are to choose from.
func (w window) choices(key topology.ObjectKey) (ids []ID, choices [][]int) {
	for id := range w.h.objects {
		if id.Kind == Node || id == (ID{Service, key}) || id.Kind == Slice && id.Namespace == key.Namespace &&
			w.some(id, func(v version) bool { return v.slice != nil && v.slice.Service == key.Name }) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b ID) int { return strings.Compare(a.String(), b.String()) })
	for _, id := range ids {
		choices = append(choices, w.candidates(id))
	}
	return ids, choices
}

func (v version) put(b *topology.Builder) {
	switch {
	case v.service != nil:
		b.SetService(v.service)
	case v.slice != nil:
		b.SetSlice(v.slice)
	case v.node != nil:
		b.SetNode(v.node)
	}
}

func leads(view *topology.View, key topology.ObjectKey, f topology.Frontend, is func(topology.Target) bool) bool {
	sv, ok := view.Service(key)
	if !ok {
		return false
	}
	among := func(tiers []topology.Tier) bool {
		return slices.ContainsFunc(tiers, func(t topology.Tier) bool { return slices.ContainsFunc(t.Endpoints, is) })
	}
	return slices.ContainsFunc(sv.Frontends, func(have topology.FrontendView) bool { return have.Frontend == f && among(have.Tiers) }) ||
		slices.ContainsFunc(sv.Outside, func(have topology.Outside) bool { return have.Frontend == f && among(have.Tiers) })
}
