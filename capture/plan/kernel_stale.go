package plan

import (
	"net/netip"
	"slices"
)

// UDPFlow is a flow as conntrack knows it.
type UDPFlow struct {
	Dialled  netip.AddrPort // where the client sends to
	Answerer netip.AddrPort // who answers, which is Dialled without NAT
}

// UDPServing are frontends of UDP, each with the endpoints that serve: those that get
// new flows, and those that may keep what they have.
type UDPServing map[netip.AddrPort][]netip.AddrPort

// Anybody alone in the place of those that serve is whoever answers, but who is dialled: of such a
// frontend only flows that are not translated are stale.
var Anybody netip.AddrPort

// Nobody alone in the place of those that serve is that a frontend is there, and has none: who
// answered before is dead, another Service's, or out of this node's reach. What is no frontend
// any more has an empty list, and its flows go on.
var Nobody = netip.AddrPortFrom(netip.Addr{}, 1)

// Stale reports whether conntrack is to forget a flow: it is to a frontend, and to none of
// its endpoints, as kube-proxy has it (KEP-2438), which asks for those of all the cluster
// where this asks for those that a closed Service's node may use. A flow outlives a
// change of tiers or of policy while its endpoint serves.
func (s UDPServing) Stale(flow UDPFlow) bool {
	serving := s[flow.Dialled]
	if len(serving) == 1 && serving[0] == Anybody { // a look asks this of each flow of the node
		return flow.Answerer == flow.Dialled
	}
	return len(serving) > 0 && !slices.Contains(serving, flow.Answerer)
}
