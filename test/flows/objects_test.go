package flows

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

const (
	namespace = "default"
	port      = 80   // of frontends
	appPort   = 8080 // of endpoints
	noPort    = 81   // of no frontend
)

// pair is an address of each family.
type pair [2]netip.Addr

func addresses(ipv4, ipv6 string) pair {
	return pair{netip.MustParseAddr(ipv4), netip.MustParseAddr(ipv6)}
}

func (p pair) of(ipv6 bool) netip.Addr {
	if ipv6 {
		return p[1]
	}
	return p[0]
}

func (p pair) strings() []string { return []string{p[0].String(), p[1].String()} }

// Addresses of frontends: those of documentation, and of the range of Services.
func (s *service) clusterIPs() pair {
	return addresses(fmt.Sprint("10.96.1.", s.number+1), fmt.Sprintf("fd00:96::%x", s.number+0x101))
}

func (s *service) externalIPs() pair {
	return addresses(fmt.Sprint("203.0.113.", s.number+1), fmt.Sprintf("2001:db8:1::%x", s.number+1))
}

func (s *service) vips() pair {
	return addresses(fmt.Sprint("198.51.100.", s.number+1), fmt.Sprintf("2001:db8:2::%x", s.number+1))
}

func (s *service) proxyVIPs() pair {
	return addresses(fmt.Sprint("192.0.2.", s.number+1), fmt.Sprintf("2001:db8:3::%x", s.number+1))
}

func (s *service) nodePort() uint16 { return uint16(30000 + s.number) }

var (
	nobody = addresses("10.96.99.99", "fd00:96::9999")
	// led are the ranges that clients elsewhere send to the node, and outer those of
	// them that the node itself does not know.
	outer = []netip.Prefix{
		netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("2001:db8::/32"),
	}
	led = append([]netip.Prefix{netlab.ServiceCIDR4, netlab.ServiceCIDR6, elsewhere(false), elsewhere(true)}, outer...)
	// alternative is the node's address that is not its primary one.
	alternative = addresses("10.77.0.1", "fd00:77::1")
)

func elsewhere(ipv6 bool) netip.Prefix {
	ip := alternative.of(ipv6)
	return netip.PrefixFrom(ip, ip.BitLen())
}

// object is the Service as it is written.
func (s *service) object(allowed pair) *corev1.Service {
	internal, external := corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyCluster
	if s.internalLocal {
		internal = corev1.ServiceInternalTrafficPolicyLocal
	}
	if s.externalLocal {
		external = corev1.ServiceExternalTrafficPolicyLocal
	}
	dual := corev1.IPFamilyPolicyRequireDualStack
	o := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name()},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: s.clusterIPs().strings()[0], ClusterIPs: s.clusterIPs().strings(),
			IPFamilyPolicy: &dual, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			ExternalIPs: s.externalIPs().strings(), InternalTrafficPolicy: &internal, ExternalTrafficPolicy: external,
			Ports: []corev1.ServicePort{
				{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: port, NodePort: int32(s.nodePort())},
				{Name: "udp", Protocol: corev1.ProtocolUDP, Port: port, NodePort: int32(s.nodePort())},
			},
		},
	}
	if s.externalLocal {
		o.Spec.HealthCheckNodePort = int32(s.nodePort()) + 1000
	}
	if s.affinity {
		o.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}
	if s.ranges {
		for _, ip := range allowed {
			o.Spec.LoadBalancerSourceRanges = append(o.Spec.LoadBalancerSourceRanges, netip.PrefixFrom(ip, ip.BitLen()).String())
		}
	}
	if s.keys != "" {
		o.Annotations = map[string]string{"topologyKeys": s.keys}
	}
	o.Status.LoadBalancer.Ingress = append(ingress(s.vips(), corev1.LoadBalancerIPModeVIP), ingress(s.proxyVIPs(), corev1.LoadBalancerIPModeProxy)...)
	return o
}

func ingress(ips pair, mode corev1.LoadBalancerIPMode) (list []corev1.LoadBalancerIngress) {
	for _, ip := range ips.strings() {
		list = append(list, corev1.LoadBalancerIngress{IP: ip, IPMode: &mode})
	}
	return list
}

// slices are the Service's EndpointSlices, one a family.
func (s *service) slices(pods map[who]pair, nodes map[who]string) (list []*discoveryv1.EndpointSlice) {
	for _, ipv6 := range []bool{false, true} {
		family := map[bool]discoveryv1.AddressType{false: discoveryv1.AddressTypeIPv4, true: discoveryv1.AddressTypeIPv6}[ipv6]
		o := &discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: s.name() + map[bool]string{false: "-ipv4", true: "-ipv6"}[ipv6],
				Labels: map[string]string{discoveryv1.LabelServiceName: s.name()},
			},
			AddressType: family, Endpoints: []discoveryv1.Endpoint{},
		}
		for _, p := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			name, number := map[corev1.Protocol]string{corev1.ProtocolTCP: "tcp", corev1.ProtocolUDP: "udp"}[p], int32(appPort)
			o.Ports = append(o.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &p, Port: &number})
		}
		for _, e := range ends(s.ends) {
			on := nodes[e.who]
			o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{pods[e.who].of(ipv6).String()}, NodeName: &on, Conditions: e.conditions(),
			})
		}
		list = append(list, o)
	}
	return list
}

func (e endpoint) conditions() discoveryv1.EndpointConditions {
	isReady := e.condition == ready
	serves := isReady || e.condition == ending
	ends := e.condition == ending || e.condition == ended
	return discoveryv1.EndpointConditions{Ready: &isReady, Serving: &serves, Terminating: &ends}
}

// nodeObject is a Node as its kubelet would register it.
func nodeObject(n *netlab.Node, unit string) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{"unit": unit, corev1.LabelHostname: n.Name}},
		Spec:       corev1.NodeSpec{PodCIDR: n.PodCIDR.String(), PodCIDRs: []string{n.PodCIDR.String(), n.PodCIDR6.String()}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: n.IP.String()},
			{Type: corev1.NodeInternalIP, Address: n.IP6.String()},
			{Type: corev1.NodeHostName, Address: n.Name},
		}},
	}
}
