package render

import (
	"net/netip"
	"slices"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/gridmesh/gridmesh/topology"
)

const endpointTemplate = "cla-1"

// strictOrder keeps a tier from spilling into the next while anything in it
// is healthy (Envoy's default of 140 spills at 71 %).
const strictOrder = 100000

// Endpoints renders a frontend's tiers as priorities. No tier, or a frontend
// that is not there at all, is an empty assignment.
func Endpoints(name string, protocol topology.Protocol, tiers []topology.Tier) Resource {
	tiers = eachOnce(tiers)
	f := new(fingerprint).add(endpointTemplate, name)
	for i, t := range tiers {
		for _, e := range t.Endpoints {
			f.add(strconv.Itoa(i), e.Addr.String())
			if e.Dead {
				f.add("dead")
			}
		}
	}
	return Resource{
		Type: EndpointType, Name: name, Version: f.version(),
		Message: func() proto.Message { return assignment(name, protocol, tiers) },
	}
}

func assignment(name string, protocol topology.Protocol, tiers []topology.Tier) *endpoint.ClusterLoadAssignment {
	cla := &endpoint.ClusterLoadAssignment{ClusterName: name}
	if len(tiers) > 0 {
		cla.Policy = &endpoint.ClusterLoadAssignment_Policy{OverprovisioningFactor: wrapperspb.UInt32(strictOrder)}
	}
	socket := core.SocketAddress_TCP
	if protocol == topology.UDP {
		socket = core.SocketAddress_UDP
	}
	for i, t := range tiers {
		locality := &endpoint.LocalityLbEndpoints{Priority: uint32(i), LbEndpoints: make([]*endpoint.LbEndpoint, len(t.Endpoints))}
		for j, e := range t.Endpoints {
			locality.LbEndpoints[j] = &endpoint.LbEndpoint{HostIdentifier: &endpoint.LbEndpoint_Endpoint{
				Endpoint: &endpoint.Endpoint{Address: socketAddress(socket, e.Addr.Addr().String(), e.Addr.Port())},
			}}
			if e.Dead { // by a vote: it stays known, and is asked where nobody else answers
				locality.LbEndpoints[j].HealthStatus = core.HealthStatus_UNHEALTHY
			}
		}
		cla.Endpoints = append(cla.Endpoints, locality)
	}
	return cla
}

// endpointsOf is how many a frontend has in all tiers.
func endpointsOf(f *topology.FrontendView) (n int) {
	for _, t := range f.Tiers {
		n += len(t.Endpoints)
	}
	return n
}

// eachOnce leaves an address in its first tier alone. Units may have the same
// addresses, and what a node dials is one place whatever the tier: Envoy knows
// an address of a cluster once, and which tier it then is in would depend on
// what it was told before.
func eachOnce(tiers []topology.Tier) []topology.Tier {
	if len(tiers) < 2 {
		return tiers
	}
	seen := map[netip.AddrPort]bool{}
	later := func(e topology.Target) bool {
		was := seen[e.Addr]
		seen[e.Addr] = true
		return was
	}
	out := make([]topology.Tier, 0, len(tiers))
	for _, t := range tiers {
		t.Endpoints = slices.DeleteFunc(slices.Clone(t.Endpoints), later)
		if len(t.Endpoints) > 0 {
			out = append(out, t)
		}
	}
	return out
}
