package plan

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// Plan is the whole of what the kernel must know, sorted.
type Plan struct {
	Serve   []topology.Frontend // handed to Envoy
	Silent  []topology.Frontend // dropped without an answer
	Guard   []netip.Prefix      // what may not leave unserved
	Pods    []netip.Prefix      // sources that are kept
	Hairpin []netip.Addr        // local endpoints that may dial themselves
}

// Change leads from one plan to the next.
type Change struct {
	AddServe, DelServe     []topology.Frontend
	AddSilent, DelSilent   []topology.Frontend
	AddHairpin, DelHairpin []netip.Addr
	Guard                  bool // Guard differs
}

// Empty reports whether there is nothing to do.
func (c *Change) Empty() bool {
	return len(c.AddServe)+len(c.DelServe)+len(c.AddSilent)+len(c.DelSilent)+len(c.AddHairpin)+len(c.DelHairpin) == 0 && !c.Guard
}

// Planner keeps the plan of one node as views go by, in O(changed). It has
// one owner.
type Planner struct {
	cfg     Config
	view    *topology.View
	serve   counted[topology.Frontend]
	silent  counted[topology.Frontend]
	hairpin counted[netip.Addr]
	vips    counted[netip.Addr]
	guard   []netip.Prefix
}

// NewPlanner starts from an empty view.
func NewPlanner(cfg Config) *Planner {
	p := &Planner{
		cfg: cfg, serve: newCounted[topology.Frontend](), silent: newCounted[topology.Frontend](),
		hairpin: newCounted[netip.Addr](), vips: newCounted[netip.Addr](),
	}
	p.guard = p.guards()
	return p
}

// With returns a planner of the same view for another configuration.
func (p *Planner) With(cfg Config) *Planner {
	other := NewPlanner(cfg)
	if p.view != nil {
		other.Next(p.view)
	}
	return other
}

// Next takes the next view and returns what it changes.
func (p *Planner) Next(v *topology.View) *Change {
	for key := range v.Changed(p.view) {
		was, _ := p.view.Service(key)
		is, _ := v.Services.Get(key)
		p.count(is, 1)
		p.count(was, -1)
	}
	ranges := p.view == nil || !slices.Equal(p.view.ServiceCIDRs, v.ServiceCIDRs)
	p.view = v
	c := &Change{}
	c.AddServe, c.DelServe = p.serve.settle(topology.Frontend.Compare)
	c.AddSilent, c.DelSilent = p.silent.settle(topology.Frontend.Compare)
	c.AddHairpin, c.DelHairpin = p.hairpin.settle(netip.Addr.Compare)
	came, went := p.vips.settle(netip.Addr.Compare)
	if ranges || len(came)+len(went) > 0 {
		guard := p.guards()
		c.Guard = !slices.Equal(guard, p.guard)
		p.guard = guard
	}
	return c
}

// Plan returns the whole plan.
func (p *Planner) Plan() *Plan {
	return &Plan{
		Serve:   p.serve.sorted(topology.Frontend.Compare),
		Silent:  p.silent.sorted(topology.Frontend.Compare),
		Hairpin: p.hairpin.sorted(netip.Addr.Compare),
		Guard:   p.guard, Pods: p.cfg.PodCIDRs,
	}
}

// Guard returns the guarded ranges.
func (p *Planner) Guard() []netip.Prefix { return p.guard }

// Guards reports whether an address is one of Services.
func (p *Planner) Guards(ip netip.Addr) bool { return Within(p.guard, ip) }

// Of returns the plan of one view.
func Of(v *topology.View, cfg Config) *Plan {
	p := NewPlanner(cfg)
	p.Next(v)
	return p.Plan()
}

func (p *Planner) count(s *topology.ServiceView, n int) {
	if s == nil {
		return
	}
	for i := range s.Frontends {
		f := &s.Frontends[i]
		p.countVIP(f.Addr, n)
		p.countHairpin(f, n)
		if f.Path != topology.PathEnvoy && f.Path != topology.PathNone {
			continue
		}
		switch {
		case f.Silent:
			p.silent.add(f.Frontend, n)
		case len(f.Tiers) > 0:
			p.serve.add(f.Frontend, n)
		}
	}
}

// countHairpin counts the local endpoints that may meet themselves through Envoy: only TCP keeps
// the source. Also where the kernel serves the frontend: Envoy goes on having its cluster, and a
// connection that was handed over just before is dialled just after.
func (p *Planner) countHairpin(f *topology.FrontendView, n int) {
	if f.Protocol != topology.TCP {
		return
	}
	for _, t := range f.Tiers {
		for _, e := range t.Endpoints {
			if Within(p.cfg.PodCIDRs, e.Addr.Addr()) {
				p.hairpin.add(e.Addr.Addr(), n)
			}
		}
	}
}

// countVIP counts ClusterIPs outside the configured ranges only, so that the
// guard's cost does not grow with the number of Services.
func (p *Planner) countVIP(ip netip.Addr, n int) {
	if !Within(p.cfg.ServiceCIDRs, ip) {
		p.vips.add(ip, n)
	}
}

func (p *Planner) guards() []netip.Prefix {
	list := slices.Clone(p.cfg.ServiceCIDRs)
	if p.view != nil {
		list = append(list, p.view.ServiceCIDRs...)
	}
	ranges := slices.Clone(list)
	for ip := range p.vips.n {
		if !Within(ranges, ip) {
			list = append(list, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	return Disjoint(list)
}

// Disjoint returns the prefixes, sorted, without those that another covers:
// interval sets refuse overlaps.
func Disjoint(list []netip.Prefix) []netip.Prefix {
	list = slices.Clone(list)
	slices.SortFunc(list, topology.ComparePrefix)
	var out []netip.Prefix
	for _, p := range list {
		if n := len(out); n > 0 && out[n-1].Overlaps(p) {
			continue
		}
		out = append(out, p)
	}
	return out
}

// counted is a multiset that remembers which members came and went.
type counted[K comparable] struct {
	n       map[K]int
	touched map[K]bool // member -> was in before
}

func newCounted[K comparable]() counted[K] {
	return counted[K]{map[K]int{}, map[K]bool{}}
}

func (c *counted[K]) add(k K, n int) {
	if _, seen := c.touched[k]; !seen {
		c.touched[k] = c.n[k] > 0
	}
	if c.n[k] += n; c.n[k] == 0 {
		delete(c.n, k)
	}
}

func (c *counted[K]) settle(compare func(a, b K) int) (added, gone []K) {
	for k, was := range c.touched {
		switch is := c.n[k] > 0; {
		case is && !was:
			added = append(added, k)
		case was && !is:
			gone = append(gone, k)
		}
	}
	clear(c.touched)
	slices.SortFunc(added, compare)
	slices.SortFunc(gone, compare)
	return added, gone
}

func (c *counted[K]) sorted(compare func(a, b K) int) []K {
	list := make([]K, 0, len(c.n))
	for k := range c.n {
		list = append(list, k)
	}
	slices.SortFunc(list, compare)
	return list
}
