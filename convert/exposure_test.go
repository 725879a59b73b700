package convert

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/topology"
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// What a Service offers besides ClusterIPs is kept as kube-proxy reads it.
func TestExposure(t *testing.T) {
	const ip = "{clusterIP: 10.96.0.1, "
	for text, want := range map[string]*topology.Exposure{
		"{spec: {clusterIP: 10.96.0.1}}":                                                                                                     nil,
		"{spec: " + ip + "externalIPs: [192.0.2.1, '2001:db8::1', 192.0.2.1, '']}}":                                                          {ExternalIPs: addrs("192.0.2.1 2001:db8::1")},
		"{spec: " + ip + "externalIPs: [192.0.2.1], externalTrafficPolicy: Local}}":                                                          {ExternalIPs: addrs("192.0.2.1"), Local: true},
		"{spec: " + ip + "externalTrafficPolicy: Local}}":                                                                                    nil,
		"{spec: " + ip + "type: NodePort, externalTrafficPolicy: Local, healthCheckNodePort: 32000}}":                                        {Local: true},
		"{spec: " + ip + "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32000}}":                                    {Local: true, HealthCheckNodePort: 32000},
		"{spec: " + ip + "type: LoadBalancer, healthCheckNodePort: 32000}}":                                                                  nil,
		"{spec: " + ip + "type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 198.51.100.1}, {hostname: x}]}}}":                      {LoadBalancers: addrs("198.51.100.1")},
		"{spec: " + ip + "type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 198.51.100.1, ipMode: VIP}, {ip: 198.51.100.1}]}}}":    {LoadBalancers: addrs("198.51.100.1")},
		"{spec: " + ip + "type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 198.51.100.1, ipMode: Proxy}]}}}":                      nil,
		"{spec: {clusterIP: None, externalIPs: [192.0.2.1]}}":                                                                                nil,
		"{spec: {externalIPs: [192.0.2.1]}}":                                                                                                 {ExternalIPs: addrs("192.0.2.1")}, // it may get a ClusterIP yet
		"{spec: " + ip + "loadBalancerSourceRanges: [' 10.1.2.3/8 ', 'fd00::1/64', '10.0.0.0/8', '']}}":                                      {Sources: prefixes("10.0.0.0/8", "fd00::/64")},
		"{spec: " + ip + "loadBalancerSourceRanges: [10.1.2.3/8, 0.0.0.0/0, 'fd00::1/64'], externalIPs: [192.0.2.1]}}":                       {ExternalIPs: addrs("192.0.2.1"), Sources: prefixes("fd00::/64")},
		"{metadata: {labels: {service.kubernetes.io/service-proxy-name: x}}, spec: " + ip + "externalIPs: [192.0.2.1], type: LoadBalancer}}": nil,
	} {
		got := Service(read[corev1.Service](t, text))
		if !reflect.DeepEqual(got.Exposure, want) || len(got.Problems) > 0 {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", text, got.Exposure, got.Problems, want)
		}
	}
}

func TestNodePorts(t *testing.T) {
	ports := func(spec string) (list []uint16) {
		for _, p := range Service(&corev1.Service{Spec: *read[corev1.ServiceSpec](t, spec)}).Ports {
			list = append(list, p.NodePort)
		}
		return list
	}
	for spec, want := range map[string][]uint16{
		"{clusterIP: 10.96.0.1, type: NodePort, ports: [{port: 80}, {port: 81, nodePort: 30080}]}": {0, 30080},
		"{clusterIP: None, ports: [{port: 81, nodePort: 30080}]}":                                  {0},
		"{ports: [{port: 81, nodePort: 30080}]}":                                                   {30080},
	} {
		if got := ports(spec); !slices.Equal(got, want) {
			t.Errorf("%s: %d, want %d", spec, got, want)
		}
	}
}

func TestAffinity(t *testing.T) {
	for spec, want := range map[string]uint32{
		"{clusterIP: 10.96.0.1}":                            0,
		"{clusterIP: 10.96.0.1, sessionAffinity: None}":     0,
		"{clusterIP: 10.96.0.1, sessionAffinity: ClientIP}": 10800,
		"{clusterIP: None, sessionAffinity: ClientIP}":      0,
		"{clusterIP: 10.96.0.1, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 10}}}": 10,
	} {
		if got := Service(&corev1.Service{Spec: *read[corev1.ServiceSpec](t, spec)}); got.Affinity != want || len(got.Problems) > 0 {
			t.Errorf("%s: %d, %v, want %d", spec, got.Affinity, got.Problems, want)
		}
	}
}

// What is wrong is named, and lets nobody in.
func TestMalformedExposure(t *testing.T) {
	got := Service(read[corev1.Service](t, `
metadata: {namespace: shop, name: web}
spec:
  clusterIP: 10.96.0.1
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 100000}}
  externalIPs: [nonsense, 127.0.0.1, 192.0.2.1, "fd00:6772:6964::53"]
  loadBalancerSourceRanges: [10.0.0.0/8, 10.0.0.300/8]
  ports: [{port: 80, nodePort: 70000}]
status: {loadBalancer: {ingress: [{hostname: x}, {ip: 0.0.0.0}, {ip: 169.254.20.11}]}}`))
	problems(t, "service shop/web", got.Problems,
		"spec.sessionAffinityConfig.clientIP.timeoutSeconds: is 100000, and 10800 is used",
		"status.loadBalancer.ingress[1].ip: 0.0.0.0 cannot be dialled", "status.loadBalancer.ingress[2].ip: 169.254.20.11 cannot be dialled", "spec.externalIPs[0]: no IP address", "spec.externalIPs[1]: 127.0.0.1 cannot be dialled", "spec.externalIPs[3]: fd00:6772:6964::53 cannot be dialled",
		`spec.loadBalancerSourceRanges[1]: "10.0.0.300/8" is no range`, "spec.ports[0].nodePort: 70000 is no port")
	want := &topology.Exposure{ExternalIPs: addrs("192.0.2.1"), Sources: prefixes("0.0.0.0/32", "10.0.0.0/8", "::/128")}
	if !reflect.DeepEqual(got.Exposure, want) || got.Affinity != 10800 || got.Ports[0].NodePort != 0 {
		t.Errorf("got %+v of %+v, want %+v", got.Exposure, got, want)
	}
}

// Addresses cost every node something for each port: one Service's are bounded.
// Ranges that are cut off let nobody in, and open no family.
func TestExposuresAreBounded(t *testing.T) {
	s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1"}}
	for i := range 2 * mostAddresses {
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, fmt.Sprintf("192.0.%d.%d", i/250, 1+i%250))
		s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, fmt.Sprintf("10.%d.%d.2/32", i/250, i%250))
	}
	got := Service(s)
	if n, m := len(got.Exposure.ExternalIPs), len(got.Exposure.Sources); n != mostAddresses || m != mostSources+2 || len(got.Problems) != 2 {
		t.Errorf("%d addresses, %d ranges, %v", n, m, got.Problems)
	}
	if !slices.Contains(got.Exposure.Sources, netip.MustParsePrefix("::/128")) {
		t.Error("IPv6 is open to everybody")
	}
}

// Ranges are kept as few that let the same clients in: a node pays for each of them.
func TestRangesAreMerged(t *testing.T) {
	for text, want := range map[string][]netip.Prefix{
		"10.0.0.0/9 10.128.0.0/9":                                 prefixes("10.0.0.0/8"),
		"10.1.0.0/16 10.0.0.0/8 10.1.2.3/32":                      prefixes("10.0.0.0/8"),
		"10.0.0.3/32 10.0.0.2/32 10.0.0.0/31 10.0.0.4/32":         prefixes("10.0.0.0/30", "10.0.0.4/32"),
		"10.0.1.0/24 10.0.2.0/24":                                 prefixes("10.0.1.0/24", "10.0.2.0/24"),
		"10.0.0.0/24 10.0.1.0/25":                                 prefixes("10.0.0.0/24", "10.0.1.0/25"),
		"fd00::/65 fd00:0:0:0:8000::/65 192.0.2.1/32":             prefixes("192.0.2.1/32", "fd00::/64"),
		"0.0.0.0/1 128.0.0.0/1 fd00::/64":                         prefixes("fd00::/64"),
		"0.0.0.0/1 128.0.0.0/2 192.0.0.0/2":                       nil,
		"0.0.0.0/1 128.0.0.0/2":                                   prefixes("0.0.0.0/1", "128.0.0.0/2"),
		"255.255.255.255/32 255.255.255.254/32 ffff::1/128 ::/32": prefixes("255.255.255.254/31", "::/32", "ffff::1/128"),
	} {
		s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1", ExternalIPs: []string{"192.0.2.1"}, LoadBalancerSourceRanges: strings.Fields(text)}}
		if got := Service(s); !slices.Equal(got.Exposure.Sources, want) || len(got.Problems) > 0 {
			t.Errorf("%s: %v, %v, want %v", text, got.Exposure.Sources, got.Problems, want)
		}
	}
}

// Whatever a Service says, no address of it is one that its own nodes mean by
// something else, and a range that cannot be read opens nothing.
func FuzzExposure(f *testing.F) {
	f.Add("192.0.2.1", "198.51.100.1", "10.0.0.0/8", int32(30080))
	f.Add("0.0.0.0", "::ffff:127.0.0.1", "::ffff:10.0.0.0/104", int32(-1))
	f.Fuzz(func(t *testing.T, external, balancer, from string, port int32) {
		s := &corev1.Service{Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1", ExternalIPs: []string{external}, LoadBalancerSourceRanges: []string{from},
			Ports: []corev1.ServicePort{{Port: 80, NodePort: port}},
		}}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: balancer}}
		out := Service(s)
		if out.Exposure == nil {
			return
		}
		for _, ip := range slices.Concat(out.Exposure.ExternalIPs, out.Exposure.LoadBalancers) {
			if !ip.IsValid() || ip.Is4In6() || ip.Zone() != "" || ip.IsUnspecified() || ip.IsLoopback() {
				t.Errorf("address %v", ip)
			}
		}
		if len(out.Problems) > 0 && len(out.Exposure.Sources) == 0 && slices.ContainsFunc(out.Problems, func(p topology.Problem) bool { return p.Field == "spec.loadBalancerSourceRanges[0]" }) {
			t.Errorf("%q lets everybody in", from)
		}
		if _, err := json.Marshal(out); err != nil {
			t.Error(err)
		}
	})
}
