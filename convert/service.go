package convert

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// Service converts a Service. One that no node serves is Foreign: nothing but
// its name is kept, and that keys do nothing there.
func Service(s *corev1.Service) *topology.Service {
	if isForeign(s) {
		out := ForeignService(&s.ObjectMeta)
		if _, other := s.Labels[names.ServiceProxyName]; !other {
			inVain(s, telling("service "+out.Key.String(), &out.Problems))
		}
		return out
	}
	out := &topology.Service{
		Key:      topology.ObjectKey{Namespace: s.Namespace, Name: s.Name},
		Headless: s.Spec.ClusterIP == corev1.ClusterIPNone,
		GridKey:  gridKey(&s.ObjectMeta),
		Selector: selector(s.Spec.Selector),
		Created:  created(&s.ObjectMeta),
	}
	// A policy that is no known word is the narrow one: a typo opens nothing.
	if p := deref(s.Spec.InternalTrafficPolicy); p != "" {
		out.InternalLocal = p != corev1.ServiceInternalTrafficPolicyCluster
	}
	out.TopologyKeys, out.Misspelt = topologyKeys(s.Annotations)
	problem := telling("service "+out.Key.String(), &out.Problems)
	unknownNames(s.Annotations, out, problem)
	if out.TopologyKeys == nil {
		labelled(s.Labels, problem)
	}
	out.Datapath = datapath(s.Annotations, problem)
	refused(&s.Spec, problem)
	if !out.Headless { // of a headless one no proxy serves anything
		out.ClusterIPs = clusterIPs(s, problem)
		out.Affinity = affinity(&s.Spec, problem)
		out.Exposure = exposure(s, problem)
	}
	for i, p := range s.Spec.Ports {
		port, ok := portNumber(p.Port)
		if !ok {
			problem.refuse(fmt.Sprintf("spec.ports[%d].port", i), "%d is no port and is not served; use 1 to 65535", p.Port)
			continue
		}
		proto, ok := protocol(p.Protocol)
		if !ok {
			problem.refuse(fmt.Sprintf("spec.ports[%d].protocol", i), "%q is not known and is not served; use TCP, UDP or SCTP", p.Protocol)
			continue
		}
		next := topology.ServicePort{Name: p.Name, Protocol: proto, Port: port}
		if p.NodePort != 0 && !out.Headless {
			if next.NodePort, ok = portNumber(p.NodePort); !ok {
				next.NodePort = 0
				problem.refuse(fmt.Sprintf("spec.ports[%d].nodePort", i), "%d is no port and is not served; use 1 to 65535", p.NodePort)
			}
		}
		out.Ports = append(out.Ports, next)
	}
	out.Unserved = unserved(out, s.Spec.Type)
	return out
}

// ForeignService is a Service of which nothing but the name is of use: it
// exists, and others serve it. Where that is known beforehand, as from its
// label, its metadata are enough.
func ForeignService(m *metav1.ObjectMeta) *topology.Service {
	return &topology.Service{Key: topology.ObjectKey{Namespace: m.Namespace, Name: m.Name}, Foreign: true}
}

// isForeign: an ExternalName, one that is left to another proxy, or one with a
// ClusterIP that is labelled headless, which kube-proxy passes over (and whose
// endpoints the watches leave out).
func isForeign(s *corev1.Service) bool {
	_, other := s.Labels[names.ServiceProxyName]
	_, headless := s.Labels[names.Headless]
	return other || s.Spec.Type == corev1.ServiceTypeExternalName || headless && s.Spec.ClusterIP != corev1.ClusterIPNone
}

// created is when an object was made; 0 of a manifest that no API server has seen.
func created(m *metav1.ObjectMeta) int64 {
	if m.CreationTimestamp.IsZero() {
		return 0
	}
	return max(0, m.CreationTimestamp.Unix())
}

// gridKey is the unit key of a grid's child; the label marks one, and the
// annotation has the key where a label's value cannot.
func gridKey(m *metav1.ObjectMeta) string {
	label := m.Labels[names.GridUniqKey]
	if label == "" {
		return ""
	}
	return cmp.Or(m.Annotations[names.UnitKey], label)
}

// unserved is what a Service asks for besides its ClusterIPs, of what was kept.
func unserved(s *topology.Service, kind corev1.ServiceType) (u topology.Unserved) {
	if s.Affinity > 0 {
		u |= topology.UnservedAffinity
	}
	if slices.ContainsFunc(s.Ports, func(p topology.ServicePort) bool { return p.NodePort != 0 }) {
		u |= topology.UnservedNodePorts
	}
	if kind == corev1.ServiceTypeLoadBalancer && !s.Headless {
		u |= topology.UnservedLoadBalancer
	}
	if s.Exposure != nil && len(s.Exposure.ExternalIPs) > 0 {
		u |= topology.UnservedExternalIPs
	}
	return u
}

func clusterIPs(s *corev1.Service, problem teller) []netip.Addr {
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
			problem.refuse(field, "%q is no IP address and is not served; write one of the cluster's range of ClusterIPs, or have its API server choose one", text)
		case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast():
			problem.refuse(field, "%s cannot be an address of a Service and is not served; write one of the cluster's range of ClusterIPs, or have its API server choose one", ip)
		case slices.ContainsFunc(list, func(o netip.Addr) bool { return o.Is6() == ip.Is6() }):
			problem.refuse(field, "%s is a second address of its family and is not served; a Service has at most one of each", ip)
		default:
			list = append(list, ip)
		}
	}
	return list
}

// selector stands for a selector in 8 bytes, never 0; that of a Service without
// one is known, too. It is on disk: made in another way it belongs into another
// field, or an update would look like a change of every selector.
func selector(labels map[string]string) uint64 {
	h := fnv.New64a()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(h, "%q=%q\n", key, labels[key])
	}
	return max(1, h.Sum64())
}
