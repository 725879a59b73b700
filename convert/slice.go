package convert

import (
	"fmt"
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// Slice converts an EndpointSlice. It returns nil for one that no Service
// claims, of another proxy, or of the family FQDN.
func Slice(s *discoveryv1.EndpointSlice) *topology.Slice {
	service := s.Labels[names.ServiceName]
	if _, other := s.Labels[names.ServiceProxyName]; other || service == "" || s.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	out := &topology.Slice{
		Key:     topology.ObjectKey{Namespace: s.Namespace, Name: s.Name},
		Service: service,
	}
	problem := telling("endpointslice "+out.Key.String(), &out.Problems)
	var ok bool
	if out.IPv6, ok = family(s.AddressType, problem); !ok {
		return out
	}
	for i, p := range s.Ports {
		if p.Port == nil {
			continue // all ports: of no meaning for a Service
		}
		port, ok := portNumber(*p.Port)
		if !ok {
			problem.pass(fmt.Sprintf("ports[%d].port", i), "%d is no port and is left out; use 1 to 65535", *p.Port)
			continue
		}
		proto := topology.TCP
		if p.Protocol != nil {
			if proto, ok = protocol(*p.Protocol); !ok {
				problem.refuse(fmt.Sprintf("ports[%d].protocol", i), "%q is not known and is left out; use TCP, UDP or SCTP", *p.Protocol)
				continue
			}
		}
		out.Ports = append(out.Ports, topology.SlicePort{Name: deref(p.Name), Protocol: proto, Port: port})
	}
	if n := len(s.Endpoints); n > 0 {
		out.Endpoints = make([]topology.Endpoint, 0, n) // append would take up to twice as much, for good
	}
	for i := range s.Endpoints {
		if ep, ok := endpoint(&s.Endpoints[i], out.IPv6, fmt.Sprintf("endpoints[%d].addresses", i), problem); ok {
			out.Endpoints = append(out.Endpoints, ep)
		}
	}
	return out
}

func endpoint(e *discoveryv1.Endpoint, ipv6 bool, field string, problem teller) (topology.Endpoint, bool) {
	if len(e.Addresses) == 0 {
		problem.refuse(field, "is empty; the endpoint is left out: give it an address")
		return topology.Endpoint{}, false
	}
	ip, err := netip.ParseAddr(e.Addresses[0])
	ip = ip.Unmap().WithZone("")
	switch {
	case err != nil:
		problem.refuse(field, "%q is no IP address; the endpoint is left out: give a whole one, as 10.1.0.1 or fd00::1", e.Addresses[0])
		return topology.Endpoint{}, false
	case ip.Is6() != ipv6:
		problem.refuse(field, "%s is not of the slice's addressType; the endpoint is left out: put it into a slice of its family", ip)
		return topology.Endpoint{}, false
	case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
		problem.refuse(field, "%s cannot be dialled from other hosts; the endpoint is left out: give the address of its pod", ip)
		return topology.Endpoint{}, false
	}
	out := topology.Endpoint{
		Addr: ip, Node: deref(e.NodeName), Hostname: deref(e.Hostname),
		// Absent means ready and serving, but not terminating (EndpointSlice API).
		Ready:       e.Conditions.Ready == nil || *e.Conditions.Ready,
		Serving:     e.Conditions.Serving == nil || *e.Conditions.Serving,
		Terminating: deref(e.Conditions.Terminating),
	}
	if e.Hints != nil {
		for _, h := range e.Hints.ForZones {
			out.HintZones = append(out.HintZones, h.Name)
		}
		for _, h := range e.Hints.ForNodes {
			out.HintNodes = append(out.HintNodes, h.Name)
		}
	}
	return out, true
}
