package convert

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/topology"
)

// OutsideOf says of which Service, as it is written, something outside of the
// ClusterIPs is dialled, and what of it; false for none. A node port has the
// addresses of nodes, of which it knows none: any is one that is no Service's. Of
// those that ask for it the eldest has it, as in a view.
func OutsideOf(services []corev1.Service, to topology.Frontend) (of topology.ObjectKey, kind topology.OutsideKind, ok bool) {
	var owner *topology.Service
	for i := range services {
		s := &topology.Service{Key: topology.ObjectKey{Namespace: services[i].Namespace, Name: services[i].Name}, Created: created(&services[i].ObjectMeta)}
		for _, p := range services[i].Spec.Ports {
			k, opens := opens(&services[i], p, to)
			if opens && (owner == nil || cmp.Or(cmp.Compare(certainty(k), certainty(kind)), s.CompareAge(owner)) < 0) {
				owner, kind = s, k
			}
		}
	}
	if owner == nil {
		return of, kind, false
	}
	return owner.Key, kind, true
}

// certainty orders kinds as they are believed where any address may be a node's.
func certainty(k topology.OutsideKind) int {
	return slices.Index([]topology.OutsideKind{topology.LoadBalancer, topology.ExternalIP, topology.NodePort}, k)
}

// opens reports whether a port of a Service is what is dialled.
func opens(s *corev1.Service, p corev1.ServicePort, to topology.Frontend) (kind topology.OutsideKind, ok bool) {
	if !strings.EqualFold(string(p.Protocol), to.Protocol.String()) && (p.Protocol != "" || to.Protocol != topology.TCP) {
		return kind, false
	}
	switch own := p.Port == int32(to.Port); {
	case own && hasAddress(s.Spec.ExternalIPs, to.Addr):
		return topology.ExternalIP, true
	case own && hasAddress(balancers(s), to.Addr):
		return topology.LoadBalancer, true
	}
	return topology.NodePort, p.NodePort != 0 && p.NodePort == int32(to.Port)
}

// balancers are the addresses of its load balancers, also of those that are
// proxies: who dials them dials the Service.
func balancers(s *corev1.Service) (list []string) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		list = append(list, in.IP)
	}
	return list
}

func hasAddress(texts []string, ip netip.Addr) bool {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && a.Unmap() == ip.Unmap() {
			return true
		}
	}
	return false
}
