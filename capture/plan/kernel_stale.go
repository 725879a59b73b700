package plan

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// UDPFlow is a flow as conntrack knows it.
type UDPFlow struct {
	Dialled  netip.AddrPort // where the client sends to
	Answerer netip.AddrPort // who answers, which is Dialled without NAT
}

// StaleUDP reports whether conntrack is to forget a flow: it is to a frontend
// that has endpoints, and to none of them, as kube-proxy has it (KEP-2438). A
// flow outlives a change of tiers or of policy while its endpoint serves. One
// that Envoy has, which is there, is Envoy's business.
func (p *KernelPlanner) StaleUDP(flow UDPFlow, envoyAbsent bool) bool {
	h := p.held[topology.Frontend{Addr: flow.Dialled.Addr(), Port: flow.Dialled.Port(), Protocol: topology.UDP}]
	if h == nil || len(h.slots)+len(h.nears)+len(h.serving) == 0 {
		return false
	}
	if h.envoy && !envoyAbsent && flow.Answerer == flow.Dialled {
		return false
	}
	return !slices.Contains(h.slots, flow.Answerer) && !slices.Contains(h.nears, flow.Answerer) && !slices.Contains(h.serving, flow.Answerer)
}
