// Package convert turns Kubernetes objects into topology's small types. It is
// pure; what an object says wrongly becomes a Problem on the result.
package convert

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// maxAnnotation bounds what is kept of a topologyKeys annotation: 16 keys of
// at most 317 characters, with room for spaces. More is malformed anyway.
const maxAnnotation = 8 << 10

// Service converts a Service.
func Service(s *corev1.Service) *topology.Service {
	key := topology.ObjectKey{Namespace: s.Namespace, Name: s.Name}
	if _, other := s.Labels[names.ServiceProxyName]; other || s.Spec.Type == corev1.ServiceTypeExternalName {
		return &topology.Service{Key: key, Foreign: true}
	}
	out := &topology.Service{
		Key:      key,
		Headless: s.Spec.ClusterIP == corev1.ClusterIPNone,
		GridKey:  s.Labels[names.GridUniqKey],
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil {
		out.InternalLocal = *p == corev1.ServiceInternalTrafficPolicyLocal
	}
	if text, ok := s.Annotations[names.TopologyKeys]; ok {
		if len(text) > maxAnnotation {
			text = text[:maxAnnotation]
		}
		out.TopologyKeys = &text
	}
	problem := func(field, format string, args ...any) {
		out.Problems = append(out.Problems, topology.Problem{Object: "service " + out.Key.String(), Field: field, Text: fmt.Sprintf(format, args...)})
	}
	if !out.Headless {
		out.ClusterIPs = clusterIPs(s, problem)
	}
	for i, p := range s.Spec.Ports {
		port, ok := portNumber(p.Port)
		if !ok {
			problem(fmt.Sprintf("spec.ports[%d].port", i), "%d is no port and is not served; use 1 to 65535", p.Port)
			continue
		}
		proto, ok := protocol(p.Protocol)
		if !ok {
			problem(fmt.Sprintf("spec.ports[%d].protocol", i), "%q is not known and is not served; use TCP or UDP", p.Protocol)
			continue
		}
		out.Ports = append(out.Ports, topology.ServicePort{Name: p.Name, Protocol: proto, Port: port})
	}
	return out
}

func clusterIPs(s *corev1.Service, problem func(field, format string, args ...any)) []netip.Addr {
	texts := s.Spec.ClusterIPs
	if len(texts) == 0 && s.Spec.ClusterIP != "" {
		texts = []string{s.Spec.ClusterIP}
	}
	var list []netip.Addr
	for i, text := range texts {
		field := fmt.Sprintf("spec.clusterIPs[%d]", i)
		ip, err := netip.ParseAddr(text)
		ip = ip.Unmap().WithZone("")
		switch {
		case err != nil:
			problem(field, "%q is no IP address and is not served; let the API server choose one", text)
		case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast():
			problem(field, "%s cannot be an address of a Service and is not served; let the API server choose one", ip)
		case slices.ContainsFunc(list, func(o netip.Addr) bool { return o.Is6() == ip.Is6() }):
			problem(field, "%s is a second address of its family and is not served; a Service has at most one of each", ip)
		default:
			list = append(list, ip)
		}
	}
	return list
}

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
		IPv6:    s.AddressType == discoveryv1.AddressTypeIPv6,
	}
	problem := func(field, format string, args ...any) {
		const most = 20 // of one slice: a broken writer makes every endpoint wrong
		if len(out.Problems) < most {
			out.Problems = append(out.Problems, topology.Problem{Object: "endpointslice " + out.Key.String(), Field: field, Text: fmt.Sprintf(format, args...)})
		}
	}
	for i, p := range s.Ports {
		if p.Port == nil {
			continue // all ports: of no meaning for a Service
		}
		port, ok := portNumber(*p.Port)
		if !ok {
			problem(fmt.Sprintf("ports[%d].port", i), "%d is no port and is left out; use 1 to 65535", *p.Port)
			continue
		}
		proto := topology.TCP
		if p.Protocol != nil {
			if proto, ok = protocol(*p.Protocol); !ok {
				problem(fmt.Sprintf("ports[%d].protocol", i), "%q is not known and is left out; use TCP or UDP", *p.Protocol)
				continue
			}
		}
		out.Ports = append(out.Ports, topology.SlicePort{Name: deref(p.Name), Protocol: proto, Port: port})
	}
	for i := range s.Endpoints {
		if ep, ok := endpoint(&s.Endpoints[i], out.IPv6, fmt.Sprintf("endpoints[%d].addresses", i), problem); ok {
			out.Endpoints = append(out.Endpoints, ep)
		}
	}
	return out
}

func endpoint(e *discoveryv1.Endpoint, ipv6 bool, field string, problem func(field, format string, args ...any)) (topology.Endpoint, bool) {
	if len(e.Addresses) == 0 {
		problem(field, "is empty; the endpoint is left out")
		return topology.Endpoint{}, false
	}
	ip, err := netip.ParseAddr(e.Addresses[0])
	switch {
	case err != nil:
		problem(field, "%q is no IP address; the endpoint is left out", e.Addresses[0])
		return topology.Endpoint{}, false
	case ip.Unmap().Is6() != ipv6:
		problem(field, "%s is not of the slice's addressType; the endpoint is left out: put it into a slice of its family", ip)
		return topology.Endpoint{}, false
	case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
		problem(field, "%s cannot be dialled from other hosts; the endpoint is left out", ip)
		return topology.Endpoint{}, false
	}
	out := topology.Endpoint{
		Addr: ip.Unmap(), Node: deref(e.NodeName), Hostname: deref(e.Hostname),
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

// Node converts a node's metadata.
func Node(m *metav1.ObjectMeta) *topology.Node {
	return &topology.Node{Name: m.Name, Labels: m.Labels}
}

// ServiceCIDR converts the ranges of a ServiceCIDR object; wrong ones are
// left out, for the API server admits none.
func ServiceCIDR(c *networkingv1.ServiceCIDR) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range c.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p.Masked())
		}
	}
	return list
}

func portNumber(n int32) (uint16, bool) { return uint16(n), n >= 1 && n <= 65535 }

func protocol(p corev1.Protocol) (topology.Protocol, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return topology.TCP, true
	case corev1.ProtocolUDP:
		return topology.UDP, true
	case corev1.ProtocolSCTP:
		return topology.SCTP, true
	}
	return 0, false
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
