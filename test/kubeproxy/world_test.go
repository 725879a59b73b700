package kubeproxy

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	namespace = "default"
	node      = "n0" // from where both look
	services  = 3
)

var families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}

// world makes random objects, few of each, so that histories collide.
type world struct {
	*rand.Rand
	slices map[string]*discoveryv1.EndpointSlice
	// shared: several endpoints of one address are made, as of sites with the same
	// address ranges, also where kube-proxy has no rule for them.
	shared bool
}

func pick[T any](w *world, list ...T) T { return list[w.IntN(len(list))] }

// oneIn is true once in n times.
func (w *world) oneIn(n int) bool { return w.IntN(n) == 0 }

func maybe[T any](w *world, list ...T) *T {
	if w.oneIn(3) {
		return nil
	}
	value := pick(w, list...)
	return &value
}

// service is a Service; what identifies it at a node is its own, for kube-proxy
// does not say whose an address is that two claim.
func (w *world) service(i int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("s", i), Labels: map[string]string{}, Annotations: map[string]string{}}}
	s.Spec.Type = pick(w, corev1.ServiceTypeClusterIP, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer)
	s.Spec.InternalTrafficPolicy = maybe(w, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	s.Spec.TrafficDistribution = maybe(w, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	s.Spec.PublishNotReadyAddresses = w.oneIn(3)
	w.addresses(s, i)
	for j, p := range []corev1.ServicePort{
		{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80},
		{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53},
		{Name: "web-udp", Protocol: corev1.ProtocolUDP, Port: 80},
		{Name: "assoc", Protocol: corev1.ProtocolSCTP, Port: 80},
	} {
		if j > 0 && w.oneIn(3) { // there is always one
			continue
		}
		if s.Spec.Type != corev1.ServiceTypeClusterIP && !w.oneIn(4) {
			p.NodePort = int32(30000 + 10*i + j)
		}
		s.Spec.Ports = append(s.Spec.Ports, p)
	}
	if w.oneIn(4) {
		s.Annotations["topologyKeys"] = pick(w, "", "[]")
	}
	if w.oneIn(3) {
		timeout := int32(1 + w.IntN(3))
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
	}
	w.notServed(s)
	return s
}

// addresses are those of a Service: of its cluster, and others.
func (w *world) addresses(s *corev1.Service, i int) {
	clusterIP := map[corev1.IPFamily]string{corev1.IPv4Protocol: fmt.Sprintf("10.96.0.%d", 1+i), corev1.IPv6Protocol: fmt.Sprintf("fd00:96::%d", 1+i)}
	s.Spec.IPFamilies = pick(w, families, families[:1], families[1:])
	for _, f := range s.Spec.IPFamilies {
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, clusterIP[f])
	}
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	if w.oneIn(3) {
		s.Spec.ExternalIPs = pick(w, []string{fmt.Sprintf("192.0.2.%d", 1+i)}, []string{fmt.Sprintf("192.0.2.%d", 1+i), fmt.Sprintf("2001:db8::%d", 1+i)})
	}
	if s.Spec.Type != corev1.ServiceTypeClusterIP || len(s.Spec.ExternalIPs) > 0 {
		s.Spec.ExternalTrafficPolicy = pick(w, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		s.Spec.HealthCheckNodePort = int32(32000 + i)
	}
	for _, ip := range []string{fmt.Sprintf("198.51.100.%d", 1+i), fmt.Sprintf("2001:db8:1::%d", 1+i), ""} {
		if w.oneIn(2) {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{
				IP: ip, IPMode: maybe(w, corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy),
			})
		}
	}
	s.Spec.LoadBalancerSourceRanges = pick(w, nil, nil, []string{"10.0.0.0/8 "}, []string{"10.0.0.0/8", "fd00::/8"}, []string{"0.0.0.0/0", "fd00::/8"})
}

// notServed makes a Service now and then one that kube-proxy passes over.
func (w *world) notServed(s *corev1.Service) {
	switch w.IntN(16) {
	case 0:
		s.Labels["service.kubernetes.io/service-proxy-name"] = pick(w, "other", "")
	case 1:
		s.Labels["service.kubernetes.io/headless"] = ""
	case 2:
		s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	case 3:
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", Ports: s.Spec.Ports}
	}
}

// slice is an EndpointSlice of one of the Services; named ports have different
// numbers in different ones.
func (w *world) slice(i int) *discoveryv1.EndpointSlice {
	of := i % services
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprint("x", i),
			Labels: map[string]string{"kubernetes.io/service-name": fmt.Sprint("s", of)},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	if i/services%3 == 2 { // of three of a Service the third
		s.AddressType = discoveryv1.AddressTypeIPv6
	}
	switch w.IntN(24) {
	case 0:
		s.Labels["service.kubernetes.io/service-proxy-name"] = pick(w, "other", "")
	case 1:
		s.Labels["service.kubernetes.io/headless"] = ""
	}
	for _, p := range []struct {
		name     string
		protocol corev1.Protocol
		numbers  []int32
	}{
		{"web", corev1.ProtocolTCP, []int32{8080, 8080, 9090}},
		{"dns", corev1.ProtocolUDP, []int32{5353}},
		{"web-udp", corev1.ProtocolUDP, []int32{8080}},
		{"web", corev1.ProtocolUDP, []int32{8081}},
		{"assoc", corev1.ProtocolSCTP, []int32{7000}},
	} {
		if number := pick(w, p.numbers...); !w.oneIn(6) {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.name, Protocol: &p.protocol, Port: &number})
		}
	}
	hints := pick(w, "none", "none", "zones", "nodes", "both", "mixed")
	for range w.IntN(5) {
		if ep := w.endpoint(hints, s.AddressType); w.shared || !w.ambiguous(s, ep) {
			s.Endpoints = append(s.Endpoints, ep)
		}
	}
	return s
}

func (w *world) endpoint(hints string, family discoveryv1.AddressType) discoveryv1.Endpoint {
	address := fmt.Sprintf("10.244.0.%d", 1+w.IntN(8))
	if family == discoveryv1.AddressTypeIPv6 {
		address = fmt.Sprintf("fd00:244::%d", 1+w.IntN(8))
	}
	ep := discoveryv1.Endpoint{Addresses: []string{address}, NodeName: maybe(w, node, node, "n1", "n2")}
	ep.Conditions = discoveryv1.EndpointConditions{Ready: maybe(w, true, true, false, false), Serving: maybe(w, true, true, false), Terminating: maybe(w, true, false)}
	of := discoveryv1.EndpointHints{}
	if hints == "zones" || hints == "both" || hints == "mixed" && w.oneIn(2) {
		of.ForZones = []discoveryv1.ForZone{{Name: pick(w, "z0", "z1")}}
	}
	if hints == "nodes" || hints == "both" || hints == "mixed" && w.oneIn(2) {
		of.ForNodes = []discoveryv1.ForNode{{Name: pick(w, node, "n1")}}
	}
	if len(of.ForZones)+len(of.ForNodes) > 0 {
		ep.Hints = &of
	}
	return ep
}

// ambiguous reports whether kube-proxy would not say what an address is, for the
// Service has a second endpoint of it that runs, or that ends. A comparison of these
// would be one of orders: TestSharedAddresses has them, by what resolved leaves.
func (w *world) ambiguous(s *discoveryv1.EndpointSlice, ep discoveryv1.Endpoint) bool {
	ends := func(ep discoveryv1.Endpoint) bool {
		return ep.Conditions.Terminating != nil && *ep.Conditions.Terminating
	}
	lists := [][]discoveryv1.Endpoint{s.Endpoints}
	for name, o := range w.slices {
		if name != s.Name && o.Labels["kubernetes.io/service-name"] == s.Labels["kubernetes.io/service-name"] {
			lists = append(lists, o.Endpoints)
		}
	}
	for _, list := range lists {
		for _, o := range list {
			if o.Addresses[0] == ep.Addresses[0] && ends(o) == ends(ep) {
				return true
			}
		}
	}
	return false
}
