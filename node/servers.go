package node

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// mostServers bounds the addresses of API servers that are remembered: a name may lead elsewhere each time.
const mostServers = 8

// One that has not answered for serverLasts, while another did, is none any more. When it did is noted once in
// serverNoted: the state file is not written for each answer.
const (
	serverLasts = 30 * 24 * time.Hour
	serverNoted = 24 * time.Hour
)

// answerer is from where the API server answered. Of this run, last has its monotonic reading: by that it ages,
// whatever the wall clock does.
type answerer struct {
	addr netip.Addr
	last time.Time
}

// serversKept are those of a run before. Where it did not say when they answered, or that they will, by a clock that was
// ahead, they may have just now.
func serversKept(st *source.State) (list []answerer) {
	now := time.Now()
	for i, addr := range st.Servers {
		last := now
		if len(st.Answered) == len(st.Servers) && st.Answered[i] < now.Unix() {
			last = time.Unix(st.Answered[i], 0)
		}
		list = append(list, answerer{addr, last})
	}
	return list
}

// noteServers notes from where the API server answered, for it is there also where it answers no more, and whom
// another process hears; and reports whether there is something to be kept.
func (l *loop) noteServers() bool {
	if l.parts.Cluster == nil {
		return false
	}
	now := time.Now()
	fresh := slices.DeleteFunc(l.parts.Cluster.Servers(), func(ip netip.Addr) bool {
		return slices.ContainsFunc(l.servers, func(s answerer) bool { return s.addr == ip && now.Round(0).Sub(s.last).Abs() < serverNoted })
	})
	noted := make([]answerer, 0, len(fresh))
	for _, ip := range fresh {
		noted = append(noted, answerer{ip, now})
	}
	l.servers = newestServers(l.servers, noted)
	return len(fresh) > 0
}

// newestServers are those of both lists, the newest last, without those that are too old beside that. While nobody
// answered, or by a clock that is another, all are: for a day after that each may still answer.
func newestServers(before, fresh []answerer) []answerer {
	if len(fresh) == 0 {
		return before
	}
	list := slices.Concat(slices.DeleteFunc(slices.Clone(before), func(had answerer) bool {
		return slices.ContainsFunc(fresh, func(s answerer) bool { return s.addr == had.addr })
	}), fresh)
	age := func(s answerer) time.Duration { return fresh[len(fresh)-1].last.Sub(s.last) }
	if slices.ContainsFunc(before, func(s answerer) bool { return age(s) < 2*serverNoted }) {
		list = slices.DeleteFunc(list, func(s answerer) bool { return age(s) >= serverLasts })
	}
	return list[max(0, len(list)-mostServers):]
}

// answered are the addresses of those.
func answered(list []answerer) (ips []netip.Addr) {
	for _, s := range list {
		ips = append(ips, s.addr)
	}
	return ips
}

// answeredAt is when each of them did, for the state file.
func answeredAt(list []answerer) (at []int64) {
	for _, s := range list {
		at = append(at, s.last.Unix())
	}
	return at
}

// servers are where the API server is: from where it answered, and, for that may be a proxy of the node, the endpoints
// of its Service, which nobody else writes. The ClusterIP of that is none: it is guarded as any.
func servers(answered []netip.Addr, snap *topology.Snapshot) []netip.Prefix {
	list := slices.Clone(answered)
	api, _ := snap.Services.Get(guard.APIService)
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
	return alone(slices.Concat(said, l.saidIPs(), ips.Homes))
}

// saidIPs are by which its Node says that it is known, and did: the kernel path has those, and without one the loop.
func (l *loop) saidIPs() []netip.Addr {
	if list := l.capture.IPs().Said; len(list) > 0 {
		return list
	}
	return l.nodeSaid
}

// alone are the ranges of one address each.
func alone(ips []netip.Addr) (list []netip.Prefix) {
	for _, ip := range ips {
		list = append(list, netip.PrefixFrom(ip, ip.BitLen()))
	}
	return list
}
