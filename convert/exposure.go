package convert

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/topology"
)

// Of one Service these many addresses of a kind and ranges are kept: each costs
// every node something for each port.
const (
	mostAddresses = 1000
	mostSources   = 1000
)

// affinity is the timeout of sessionAffinity ClientIP in seconds; 0 for none.
func affinity(s *corev1.ServiceSpec, problem teller) uint32 {
	if s.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	const field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
	const usual, most = uint32(corev1.DefaultClientIPServiceAffinitySeconds), 86400 // of the Kubernetes API
	c := s.SessionAffinityConfig
	if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
		return usual
	}
	seconds := *c.ClientIP.TimeoutSeconds
	if seconds < 1 || seconds > most {
		problem.refuse(field, "is %d, and %d is used; give 1 to %d", seconds, usual, most)
		return usual
	}
	return uint32(seconds)
}

// exposure is what a Service offers besides ClusterIPs and node ports. As in
// kube-proxy its type says nothing: what is there is served.
func exposure(s *corev1.Service, problem teller) *topology.Exposure {
	local := externalLocal(&s.Spec)
	if len(s.Status.LoadBalancer.Ingress)+len(s.Spec.ExternalIPs)+len(s.Spec.LoadBalancerSourceRanges) == 0 && !local {
		return nil
	}
	var balancers, fields []string
	for i, in := range s.Status.LoadBalancer.Ingress {
		// Packets to the address of a load balancer that is a proxy do not come
		// here, and those that leave from here are for it (KEP-1860).
		if in.IP == "" || in.IPMode != nil && *in.IPMode != corev1.LoadBalancerIPModeVIP {
			continue
		}
		field := fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i)
		if ip, err := netip.ParseAddr(in.IP); err == nil && ownAddress(ip.Unmap()) {
			problem.pass(field, notDialled, ip.Unmap().WithZone("")) // an API server takes it, unlike an external one
			continue
		}
		balancers, fields = append(balancers, in.IP), append(fields, field)
	}
	x := &topology.Exposure{
		LoadBalancers: outsideAddresses(balancers, func(i int) string { return fields[i] }, "status.loadBalancer.ingress", problem),
		ExternalIPs:   outsideAddresses(s.Spec.ExternalIPs, func(i int) string { return fmt.Sprintf("spec.externalIPs[%d]", i) }, "spec.externalIPs", problem),
		Sources:       sources(s.Spec.LoadBalancerSourceRanges, problem),
		Local:         local,
	}
	// An address that a load balancer has is under the rules of that.
	x.ExternalIPs = slices.DeleteFunc(x.ExternalIPs, func(ip netip.Addr) bool { return slices.Contains(x.LoadBalancers, ip) })
	if local && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		if port, ok := portNumber(s.Spec.HealthCheckNodePort); ok {
			x.HealthCheckNodePort = port
		}
	}
	if len(x.LoadBalancers)+len(x.ExternalIPs)+len(x.Sources) == 0 && !local {
		return nil
	}
	return x
}

// externalLocal reports externalTrafficPolicy Local, or one that is no known word,
// which has a meaning only where somebody can dial from outside.
func externalLocal(s *corev1.ServiceSpec) bool {
	open := s.Type != corev1.ServiceTypeClusterIP && s.Type != "" || len(s.ExternalIPs) > 0
	return open && s.ExternalTrafficPolicy != "" && s.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyCluster
}

const notDialled = "%s cannot be dialled from elsewhere and is not served; give one that is routed to nodes"

// ownAddress reports whether each host means something of its own by an address.
func ownAddress(ip netip.Addr) bool {
	return ip.IsUnspecified() || ip.IsMulticast() || slices.ContainsFunc(topology.NodesOwn, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// outsideAddresses are those that can be a destination from elsewhere, each once.
func outsideAddresses(texts []string, field func(i int) string, all string, problem teller) []netip.Addr {
	var list []netip.Addr
	known := map[netip.Addr]bool{}
	for i, text := range texts {
		ip, err := netip.ParseAddr(strings.TrimSpace(text))
		ip = ip.Unmap().WithZone("")
		switch {
		case i == mostAddresses:
			problem.pass(all, "has more than %d addresses, and the rest of them is not served; use more Services", mostAddresses)
			return list
		case strings.TrimSpace(text) == "": // the API server lets them pass
		case err != nil:
			problem.refuse(field(i), "%q is no IP address and is not served; give a whole one, as 192.0.2.1 or 2001:db8::1", text)
		case ownAddress(ip):
			problem.refuse(field(i), notDialled, ip)
		case !known[ip]:
			known[ip] = true
			list = append(list, ip)
		}
	}
	return list
}

// sources are the ranges that may dial a load balancer's addresses. Of a family
// with a range of everybody there is none, for none means everybody. Where
// something is no range, a family that lacks others is closed, by one that no
// packet comes from: a typo never opens a Service.
func sources(texts []string, problem teller) []netip.Prefix {
	nobody := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 32), netip.PrefixFrom(netip.IPv6Unspecified(), 128)}
	const field = "spec.loadBalancerSourceRanges"
	var list []netip.Prefix
	open := map[bool]bool{}
	for i, text := range texts {
		if i == mostSources {
			problem.pass(field, "has more than %d ranges, and who is in the rest of them is not let in; merge some", mostSources)
			list = append(list, nobody...)
			break
		}
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil || p.Addr().Is4In6():
			problem.refuse(fmt.Sprintf("%s[%d]", field, i), "%q is no range of addresses: nobody is let in by it, and of a family without another one nobody at all; write one as 192.0.2.0/24", text)
			list = append(list, nobody...)
		case p.Bits() == 0:
			open[p.Addr().Is6()] = true
		default:
			list = append(list, p.Masked())
		}
	}
	list = merged(list)
	for _, p := range list {
		if p.Bits() == 0 { // of both halves
			open[p.Addr().Is6()] = true
		}
	}
	return slices.DeleteFunc(list, func(p netip.Prefix) bool { return open[p.Addr().Is6()] })
}

// merged are as few ranges with the same addresses: each costs every node something
// for each port.
func merged(list []netip.Prefix) (few []netip.Prefix) {
	slices.SortFunc(list, topology.ComparePrefix)
	for _, p := range list {
		if n := len(few); n > 0 && few[n-1].Overlaps(p) {
			continue // the one before begins no later, and is no smaller
		}
		few = append(few, p)
		for n := len(few); n > 1; n-- {
			a, b := few[n-2], few[n-1]
			both, err := a.Addr().Prefix(a.Bits() - 1)
			if a.Bits() != b.Bits() || err != nil || !both.Contains(b.Addr()) {
				break
			}
			few = append(few[:n-2], both)
		}
	}
	return few
}
