package plan

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// KernelPlanner keeps the kernel path of one node as Services change, in
// O(changed). It has one owner.
type KernelPlanner struct {
	pods      []netip.Prefix
	nodePorts []netip.Addr
	services  map[string][]KernelFrontend
	claims    map[topology.Frontend][]claim
	held      map[topology.Frontend]*held
	dirty     map[topology.Frontend]bool
	loops     counted[netip.Addr]
	picks     counted[Pick]
	memories  memories
	lists     counted[List]
	ranges    map[List][]netip.Prefix // of those
	guards    guards

	slots, nears placing
}

// claim is what one Service wants of a frontend.
type claim struct {
	service string
	want    *KernelFrontend
}

// held is a frontend as it is planned.
type held struct {
	service      string
	front, near  Pick
	slots, nears []netip.AddrPort // by number
	outside      bool
	local        bool
	guard        *guard           // nil: everybody may dial
	serving      []netip.AddrPort // of UDP, besides slots and nears
}

// NewKernelPlanner starts without Services. Node ports are served at the
// addresses given.
func NewKernelPlanner(cfg Config, nodePorts []netip.Addr) *KernelPlanner {
	var nodeIPs []netip.Addr
	if cfg.Kernel != nil {
		nodeIPs = cfg.Kernel.NodeIPs
	}
	return &KernelPlanner{
		pods: cfg.PodCIDRs, nodePorts: nodePorts,
		services: map[string][]KernelFrontend{}, claims: map[topology.Frontend][]claim{},
		held: map[topology.Frontend]*held{}, dirty: map[topology.Frontend]bool{},
		loops: newCounted[netip.Addr](), picks: newCounted[Pick](), memories: newMemories(),
		lists: newCounted[List](), ranges: map[List][]netip.Prefix{}, guards: guards{nodeIPs: nodeIPs},
	}
}

// With returns a planner of the same Services for another configuration.
func (p *KernelPlanner) With(cfg Config, nodePorts []netip.Addr) *KernelPlanner {
	other := NewKernelPlanner(cfg, nodePorts)
	for name, list := range p.services {
		other.Set(name, list)
	}
	other.Settle()
	return other
}

// Set takes all frontends of a Service; none removes it. The list is kept and
// must not change any more.
func (p *KernelPlanner) Set(service string, list []KernelFrontend) {
	for f := range p.expand(p.services[service]) {
		p.dirty[f] = true
		rest := slices.DeleteFunc(p.claims[f], func(c claim) bool { return c.service == service })
		if p.claims[f] = rest; len(rest) == 0 {
			delete(p.claims, f)
		}
	}
	p.memories.set(service, list)
	if delete(p.services, service); len(list) > 0 {
		p.services[service] = list
	}
	for f, want := range p.expand(list) {
		p.dirty[f] = true
		p.claims[f] = append(p.claims[f], claim{service, want})
	}
}

// expand yields each frontend once, those of node ports at every address.
func (p *KernelPlanner) expand(list []KernelFrontend) map[topology.Frontend]*KernelFrontend {
	all := make(map[topology.Frontend]*KernelFrontend, len(list))
	add := func(f topology.Frontend, want *KernelFrontend) {
		if _, twice := all[f]; !twice {
			all[f] = want
		}
	}
	for i := range list {
		f := list[i].Frontend
		if !f.Addr.IsUnspecified() {
			add(f, &list[i])
			continue
		}
		for _, ip := range p.nodePorts {
			if ip.Is6() == f.Addr.Is6() {
				add(topology.Frontend{Addr: ip, Port: f.Port, Protocol: f.Protocol}, &list[i])
			}
		}
	}
	return all
}

// Settle returns what the calls of Set since the last one changed.
func (p *KernelPlanner) Settle() *KernelChange {
	c := &KernelChange{}
	for _, service := range p.memories.settle() {
		for f := range p.expand(p.services[service]) {
			p.dirty[f] = true
		}
	}
	for _, f := range slices.SortedFunc(maps.Keys(p.dirty), topology.Frontend.Compare) {
		was, is := p.held[f], (*held)(nil)
		if list := p.claims[f]; len(list) > 0 {
			// Two Services of one address: the same of them on every node.
			best := slices.MinFunc(list, func(a, b claim) int { return strings.Compare(a.service, b.service) })
			is = p.hold(f, best.want, was)
			is.service = best.service
		}
		p.count(is, 1)
		p.count(was, -1)
		if p.held[f] = is; is == nil {
			delete(p.held, f)
		}
		c.note(move{f, was, is})
	}
	clear(p.dirty)
	c.AddLoops, c.DelLoops = p.loops.settle(netip.Addr.Compare)
	c.AddPicks, c.DelPicks = p.picks.settle(Pick.compare)
	p.settleLists(c)
	return c
}

// Whole is the change that leads to all of it from nothing.
func (p *KernelPlanner) Whole() *KernelChange {
	c := &KernelChange{AddLoops: p.loops.sorted(netip.Addr.Compare), AddPicks: p.picks.sorted(Pick.compare), AddLists: p.Lists()}
	for f, h := range p.held {
		c.moves = append(c.moves, move{f, nil, h})
	}
	return c
}

// Plan returns all of it at once.
func (p *KernelPlanner) Plan() (e KernelElements, picks []Pick) {
	c := p.Whole()
	_, come := c.all()
	return *come, c.AddPicks
}

// Of is what a Service was set to.
func (p *KernelPlanner) Of(service string) []KernelFrontend { return p.services[service] }

// Has reports whether a frontend is planned.
func (p *KernelPlanner) Has(f topology.Frontend) bool { return p.held[f] != nil }

// Serving are the planned frontends of a protocol, in no order.
func (p *KernelPlanner) Serving(protocol topology.Protocol) (list []topology.Frontend) {
	for f := range p.held {
		if f.Protocol == protocol {
			list = append(list, f)
		}
	}
	return list
}

// ServingUDP are all planned frontends of UDP.
func (p *KernelPlanner) ServingUDP() UDPServing {
	all := UDPServing{}
	for f, h := range p.held {
		if f.Protocol == topology.UDP {
			all[f.AddrPort()] = h.all()
		}
	}
	return all
}

// all are those that serve a frontend of UDP, in any way, or Nobody.
func (h *held) all() []netip.AddrPort {
	if list := slices.Concat(h.slots, h.nears, h.serving); len(list) > 0 {
		return list
	}
	return []netip.AddrPort{Nobody}
}

// hold plans a frontend. Endpoints keep their slots, so that few elements change.
func (p *KernelPlanner) hold(f topology.Frontend, want *KernelFrontend, was *held) *held {
	if was == nil {
		was = &held{}
	}
	h := &held{}
	h.slots = p.slots.place(was.slots, first(want.Tiers, f))
	h.front = Pick{IPv6: f.Addr.Is6(), Among: len(h.slots), Silent: want.Silent && len(h.slots) == 0}
	if x := want.Outside; x != nil {
		h.outside, h.local = true, x.Local
		h.guard = p.guards.of(x.Sources, f.Addr.Is6())
		if x.Local {
			h.nears = p.nears.place(was.nears, first(x.LocalTiers, f))
			h.near = Pick{IPv6: f.Addr.Is6(), Near: true, Among: len(h.nears), Silent: x.Silent && len(h.nears) == 0}
		}
	}
	if want.Affinity > 0 {
		p.remember(&h.front, want, want.Here)
		p.remember(&h.near, want, true)
	}
	if f.Protocol == topology.UDP {
		h.serving = slices.Clone(want.Serving)
		for _, t := range want.Tiers {
			h.serving = append(h.serving, t...)
		}
	}
	return h
}

// first are the endpoints of the first tier that has any, of the family.
func first(tiers [][]netip.AddrPort, f topology.Frontend) []netip.AddrPort {
	for _, t := range tiers {
		list := make([]netip.AddrPort, 0, len(t))
		for _, e := range t {
			if e.Addr().Is6() == f.Addr.Is6() {
				list = append(list, e)
			}
		}
		slices.SortFunc(list, netip.AddrPort.Compare)
		if list = slices.Compact(list); len(list) > 0 {
			return list[:min(len(list), mostAmong)]
		}
	}
	return nil
}

// placing is the last list that was given slots: most ports of a Service have the same, twice, for
// what it costs and for what becomes of it.
type placing struct{ was, want, is []netip.AddrPort }

func (p *placing) place(was, want []netip.AddrPort) []netip.AddrPort {
	if !slices.Equal(p.was, was) || !slices.Equal(p.want, want) {
		*p = placing{was, want, place(was, want)}
	}
	return p.is
}

// place gives every endpoint of a sorted list a slot: those that had one keep
// it, as far as there are as many.
func place(was, want []netip.AddrPort) []netip.AddrPort {
	if slices.Equal(was, want) {
		return was
	}
	slots := make([]netip.AddrPort, len(want))
	kept := make(map[netip.AddrPort]bool, len(want))
	for i, e := range was[:min(len(was), len(want))] {
		if _, wanted := slices.BinarySearchFunc(want, e, netip.AddrPort.Compare); wanted {
			slots[i], kept[e] = e, true
		}
	}
	free := 0
	for _, e := range want {
		if kept[e] {
			continue
		}
		for slots[free].IsValid() {
			free++
		}
		slots[free] = e
	}
	return slots
}

// count counts what frontends share.
func (p *KernelPlanner) count(h *held, n int) {
	if h == nil {
		return
	}
	if g := h.guard; g != nil {
		p.lists.add(g.List, n)
		p.ranges[g.List] = g.Of
	}
	for _, pick := range []Pick{h.front, h.near} {
		if pick.Among > 0 {
			p.picks.add(pick, n)
		}
	}
	for _, list := range [][]netip.AddrPort{h.slots, h.nears} {
		for _, e := range list {
			if len(p.pods) == 0 || Within(p.pods, e.Addr()) {
				p.loops.add(e.Addr(), n)
			}
		}
	}
}
