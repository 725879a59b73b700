package node

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// mostServers bounds the addresses of API servers that are remembered: a name may lead elsewhere each time.
const mostServers = 8

// noteServers notes from where the API server answered, for it is there also where it answers no more, and whom
// another process hears; and reports whether that was not known.
func (l *loop) noteServers() bool {
	if l.parts.Cluster == nil {
		return false
	}
	fresh := slices.DeleteFunc(slices.Clone(l.parts.Cluster.Servers()), func(ip netip.Addr) bool { return slices.Contains(l.servers, ip) })
	l.servers = newestServers(l.servers, fresh)
	return len(fresh) > 0
}

// newestServers are those of both lists, the newest last.
func newestServers(before, fresh []netip.Addr) []netip.Addr {
	list := slices.Concat(slices.DeleteFunc(slices.Clone(before), func(ip netip.Addr) bool { return slices.Contains(fresh, ip) }), fresh)
	return list[max(0, len(list)-mostServers):]
}

// servers are where the API server is: from where it answered, and, for that may be a proxy of the node, the endpoints
// of its Service, which nobody else writes. The ClusterIP of that is none: it is guarded as any.
func servers(answered []netip.Addr, snap *topology.Snapshot) []netip.Prefix {
	list := slices.Clone(answered)
	api, _ := snap.Services.Get(topology.ObjectKey{Namespace: "default", Name: "kubernetes"})
	if api == nil || api.Service == nil {
		return alone(list)
	}
	for _, slice := range api.Slices {
		for i := range slice.Endpoints {
			list = append(list, slice.Endpoints[i].Addr)
		}
	}
	return alone(slices.DeleteFunc(list, func(ip netip.Addr) bool { return slices.Contains(api.Service.ClusterIPs, ip) }))
}

// serversOf are those that a run before knew.
func serversOf(st *source.State) []netip.Prefix { return servers(st.Servers, st.Snapshot) }

// addresses are those by which this node is known.
func (l *loop) addresses() []netip.Prefix {
	said, _ := l.nodeIPs.Get()
	ips := l.capture.IPs()
	return alone(slices.Concat(said, ips.Said, ips.Homes))
}

// alone are the ranges of one address each.
func alone(ips []netip.Addr) (list []netip.Prefix) {
	for _, ip := range ips {
		list = append(list, netip.PrefixFrom(ip, ip.BitLen()))
	}
	return list
}
