package guard

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// nowhere adds that no Service is in the ranges of the flags, of a family, though there are
// some: an API server before 1.33 has no ServiceCIDRs that would say so, nor have manifests.
// That one of several ranges has none is no mistake: it may be new.
func (g Check) nowhere(add func(string, ...any)) {
	for _, any := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		flags := ofFamily(g.Flags, any)
		if len(flags) == 0 || len(ofFamily(g.Cluster, any)) > 0 || g.Snapshot == nil {
			continue
		}
		if eldest, ip := g.outside(flags, any); eldest != nil {
			add("--service-cidr %s holds the ClusterIP of no Service (service %s has %s): what is sent there is refused on this node, whoever is there; %s", several(flags), eldest.Key, ip, CureFlag)
		}
	}
}

// outside is the eldest Service with a ClusterIP of a family, which is the first that there
// was and stays the same, where no Service has one in these ranges; nil where one has.
func (g Check) outside(ranges []netip.Prefix, family netip.Prefix) (eldest *topology.Service, of netip.Addr) {
	for _, entry := range g.Snapshot.Services.All() {
		if entry.Service == nil {
			continue
		}
		for _, ip := range entry.Service.ClusterIPs {
			switch {
			case !family.Contains(ip):
			case slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) }):
				return nil, netip.Addr{}
			case eldest == nil || entry.Service.CompareAge(eldest) < 0:
				eldest, of = entry.Service, ip
			}
		}
	}
	return eldest, of
}
