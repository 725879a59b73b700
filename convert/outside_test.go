package convert

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/topology"
)

// A node port that several ask for is the eldest's, as in a view; who has no age
// yet comes last.
func TestOutsideOfTheEldest(t *testing.T) {
	const ports = "spec: {ports: [{port: 80, nodePort: 30080}]}}"
	services := []corev1.Service{
		*read[corev1.Service](t, "{metadata: {namespace: shop, name: a}, "+ports),
		*read[corev1.Service](t, "{metadata: {namespace: shop, name: b, creationTimestamp: '2026-02-01T00:00:00Z'}, "+ports),
		*read[corev1.Service](t, "{metadata: {namespace: shop, name: c, creationTimestamp: '2026-01-01T00:00:00Z'}, "+ports),
	}
	to := topology.Frontend{Addr: netip.MustParseAddr("192.0.2.1"), Port: 30080, Protocol: topology.TCP}
	for n, want := range []string{"shop/a", "shop/b", "shop/c"} {
		if of, _, ok := OutsideOf(services[:n+1], to); !ok || of.String() != want {
			t.Errorf("of %d: %s, want %s", n+1, of, want)
		}
	}
}

// Whose address somebody dials, as the Services are written.
func TestOutsideOf(t *testing.T) {
	services := []corev1.Service{
		*read[corev1.Service](t, "{metadata: {namespace: shop, name: plain}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}"),
		*read[corev1.Service](t, "{metadata: {namespace: shop, name: web}, spec: {externalIPs: [nonsense, 203.0.113.1, 198.51.100.2], ports: [{port: 80, nodePort: 30080}, {port: 53, nodePort: 30053, protocol: UDP}]},"+
			" status: {loadBalancer: {ingress: [{hostname: x}, {ip: '198.51.100.1', ipMode: Proxy}, {ip: 198.51.100.2}, {ip: '2001:db8::1'}]}}}"),
		*read[corev1.Service](t, "{metadata: {namespace: shop, name: later}, spec: {externalIPs: [203.0.113.1], ports: [{port: 80}, {port: 81}, {port: 30080}]}}"),
	}
	for _, tc := range []struct {
		to    string
		proto topology.Protocol
		of    string // "" for nobody's
		kind  topology.OutsideKind
	}{
		{"203.0.113.1:80", topology.TCP, "shop/later", topology.ExternalIP}, // the first by name, as in a view
		{"203.0.113.1:81", topology.TCP, "shop/later", topology.ExternalIP},
		{"203.0.113.1:53", topology.UDP, "shop/web", topology.ExternalIP},
		{"[::ffff:203.0.113.1]:80", topology.TCP, "shop/later", topology.ExternalIP},
		{"198.51.100.1:80", topology.TCP, "shop/web", topology.LoadBalancer},
		{"[2001:db8::1]:80", topology.TCP, "shop/web", topology.LoadBalancer},
		{"198.51.100.2:80", topology.TCP, "shop/web", topology.ExternalIP}, // both
		{"192.0.2.1:30080", topology.TCP, "shop/web", topology.NodePort},
		{"203.0.113.1:30080", topology.TCP, "shop/later", topology.ExternalIP}, // no node's
		{"192.0.2.1:30053", topology.UDP, "shop/web", topology.NodePort},
		{"192.0.2.1:30080", topology.UDP, "", 0},
		{"192.0.2.1:30053", topology.TCP, "", 0},
		{"203.0.113.1:82", topology.TCP, "", 0},
		{"203.0.113.2:80", topology.TCP, "", 0},
		{"10.96.0.1:80", topology.TCP, "", 0}, // a ClusterIP is none
	} {
		ap := netip.MustParseAddrPort(tc.to)
		of, kind, ok := OutsideOf(services, topology.Frontend{Addr: ap.Addr(), Port: ap.Port(), Protocol: tc.proto})
		if ok != (tc.of != "") || ok && (of.String() != tc.of || kind != tc.kind) {
			t.Errorf("%s/%s: %s %s, %v; want %s %s", tc.to, tc.proto, of, kind, ok, tc.of, tc.kind)
		}
	}
}
