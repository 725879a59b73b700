package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// List is one of ranges that may dial. It is the same for all frontends of a Service, and for
// Services that let in the same: what a Service changes is as much as its ranges are,
// however many frontends they guard.
type List struct {
	IPv6 bool
	ID   [16]byte // says what is in it
}

// Name is the same on every node, and after a restart.
func (l List) Name() string { return hex.EncodeToString(l.ID[:]) }

func (l List) compare(o List) int {
	return cmp.Or(compareBool(l.IPv6, o.IPv6), slices.Compare(l.ID[:], o.ID[:]))
}

// Ranges are what is in a list: sorted, of one family, and none covers another.
type Ranges struct {
	List List
	Of   []netip.Prefix
}

// rangesOf are those of a family that a Service names, and no list where everybody may dial.
func rangesOf(list []netip.Prefix, ipv6 bool) (r Ranges) {
	for _, p := range list {
		if p.Addr().Is6() != ipv6 {
			continue
		}
		if p.Bits() == 0 {
			return Ranges{}
		}
		r.Of = append(r.Of, p.Masked())
	}
	if len(r.Of) == 0 {
		return Ranges{}
	}
	r.Of = Disjoint(r.Of)
	sum := sha256.New()
	for _, p := range r.Of {
		text, _ := p.MarshalBinary()
		sum.Write(text)
	}
	r.List.IPv6 = ipv6
	copy(r.List.ID[:], sum.Sum(nil))
	return r
}

// guard is what frontends with the same ranges share.
type guard struct {
	Ranges
	node bool // they let this node in
}

func (g *guard) equal(o *guard) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.List == o.List && g.node == o.node
}

// guards are those of the ranges that were asked about: the frontends of a Service have one
// list, which is looked at once.
type guards struct {
	nodeIPs []netip.Addr
	known   map[guarded]*guard
}

type guarded struct {
	first *netip.Prefix
	n     int
	ipv6  bool
}

// of is nil where everybody may dial.
func (g *guards) of(list []netip.Prefix, ipv6 bool) *guard {
	if len(list) == 0 {
		return nil
	}
	key := guarded{&list[0], len(list), ipv6}
	found, known := g.known[key]
	if known {
		return found
	}
	if r := rangesOf(list, ipv6); len(r.Of) > 0 {
		in := func(ip netip.Addr) bool { return Within(r.Of, ip) }
		found = &guard{r, slices.ContainsFunc(g.nodeIPs, in)}
	}
	if g.known == nil {
		g.known = map[guarded]*guard{}
	}
	g.known[key] = found
	return found
}

// limit adds who may dial a frontend. A load balancer's address is often one of the node's
// own: a node that may dial does so with that address too.
func (e *KernelElements) limit(f topology.Frontend, g *guard) {
	if g == nil {
		return
	}
	e.Limits = []Limit{{f, g.List}}
	if g.node {
		e.Selves = []topology.Frontend{f}
	}
}

// Lists are all that frontends need.
func (p *KernelPlanner) Lists() []Ranges { return p.contents(p.lists.sorted(List.compare)) }

// contents are what is in lists that frontends need.
func (p *KernelPlanner) contents(lists []List) (all []Ranges) {
	for _, l := range lists {
		all = append(all, Ranges{l, p.ranges[l]})
	}
	return all
}

// settleLists says which lists came and went.
func (p *KernelPlanner) settleLists(c *KernelChange) {
	added, gone := p.lists.settle(List.compare)
	c.AddLists, c.DelLists = p.contents(added), p.contents(gone)
	for _, l := range gone {
		delete(p.ranges, l)
	}
	p.guards.known = nil
}
