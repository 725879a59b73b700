package kubernetes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// throng is a closed headless Service with n endpoints of each family on a-1,
// and as many on b-1.
func throng(n int) string {
	var b strings.Builder
	b.WriteString(`{apiVersion: v1, kind: Service, metadata: {name: throng, labels: {superedge.io/grid-uniq-key: site}, annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: None, ipFamilyPolicy: RequireDualStack, ports: [{name: main, port: 80}]}}` + "\n")
	for unit, node := range []string{"a-1", "b-1"} {
		for _, family := range []string{"IPv4", "IPv6"} {
			fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: throng-%s-%s, labels: {kubernetes.io/service-name: throng}}\naddressType: %s\nports: [{name: main, port: 80}]\nendpoints:\n",
				node, strings.ToLower(family), family)
			for i := range n {
				ip := netip.AddrFrom4([4]byte{10, 9, byte(10 + unit), byte(i + 1)}).String()
				if family == "IPv6" {
					ip = fmt.Sprintf("fd09::%d:%x", 10+unit, i+1)
				}
				fmt.Fprintf(&b, "- {addresses: [%q], nodeName: %s, hostname: throng-%s-%d, conditions: {ready: true}}\n", ip, node, node, i)
			}
		}
	}
	return b.String()
}

// 200 endpoints: cut off where a client takes less, whole by TCP and for who
// takes more.
func TestLargeAnswers(t *testing.T) {
	const n = 200
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	upstreamDNS(t)
	nodeDNS(t)
	applied(t, throng(n), "service/throng", "endpointslice/throng-a-1-ipv4", "endpointslice/throng-a-1-ipv6", "endpointslice/throng-b-1-ipv4", "endpointslice/throng-b-1-ipv6")
	from, name := c.Nodes["a-1"].NS, "throng.default.svc.cluster.local."
	want := map[string]bool{}
	for i := range n {
		want[fmt.Sprintf("10.9.10.%d", i+1)] = true
	}
	ask := func(network string, size uint16, qtype uint16) (*dns.Msg, error) {
		t.Helper()
		q := new(dns.Msg).SetQuestion(name, qtype)
		if qtype == dns.TypeSRV {
			q.SetQuestion("_main._tcp."+name, qtype)
		}
		if size > 0 {
			q.SetEdns0(size, false)
		}
		m, err := edge.Exchange(from, network, local, q)
		if err != nil {
			return nil, err
		}
		if size > 0 != (m.IsEdns0() != nil) {
			t.Errorf("%s, EDNS %d: the answer's EDNS is %v", network, size, m.IsEdns0())
		}
		m.Compress = true // as it was sent
		if limit := max(size, 512); network == "udp" && m.Len() > int(limit) {
			t.Errorf("%d bytes to who takes %d", m.Len(), limit)
		}
		for _, rr := range m.Answer {
			if a, ok := rr.(*dns.A); ok && !want[a.A.String()] {
				t.Errorf("%s is not of this unit", a.A)
			}
		}
		return m, nil
	}
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} { // not once with another unit's
		wait.Eventually(t, func() error {
			got, err := ask("tcp", 0, qtype)
			if err == nil && len(got.Answer) != n {
				err = fmt.Errorf("%d records of type %s", len(got.Answer), dns.TypeToString[qtype])
			}
			return err
		})
	}
	for _, c := range []struct {
		network string
		size    uint16
		qtype   uint16
		cut     bool
	}{
		{"udp", 0, dns.TypeA, true},
		{"udp", 1232, dns.TypeA, true},
		{"udp", 4096, dns.TypeA, false},
		{"tcp", 0, dns.TypeA, false},
		{"udp", 1232, dns.TypeAAAA, true},
		{"tcp", 1232, dns.TypeAAAA, false},
		{"udp", 1232, dns.TypeSRV, true},
		{"tcp", 0, dns.TypeSRV, false},
	} {
		var m *dns.Msg
		wait.Eventually(t, func() (err error) { // an answer by UDP may be lost
			m, err = ask(c.network, c.size, c.qtype)
			return err
		})
		t.Logf("%s, EDNS %d, %s: %d of %d records, TC %v", c.network, c.size, dns.TypeToString[c.qtype], len(m.Answer), n, m.Truncated)
		if m.Truncated != c.cut || !c.cut && len(m.Answer) != n {
			t.Errorf("%s, EDNS %d, %s: TC %v and %d records", c.network, c.size, dns.TypeToString[c.qtype], m.Truncated, len(m.Answer))
		}
	}
}

// Labels of 63 bytes, in the Service's name and below it, in any case.
func TestLongestLabels(t *testing.T) {
	upstreamDNS(t)
	inUnits(t, map[string]string{"a-1": "north"})
	nodeDNS(t)
	service, set := strings.Repeat("s", 63), strings.Repeat("d", 55)
	applied(t, strings.NewReplacer("SERVICE", service, "SET", set).Replace(`
{apiVersion: v1, kind: Service, metadata: {name: SERVICE, labels: {superedge.io/grid-uniq-key: site}, annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: None, ports: [{name: main, port: 80}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: longest, labels: {kubernetes.io/service-name: SERVICE}}
addressType: IPv4
ports: [{name: main, port: 80}]
endpoints: [{addresses: [10.9.6.1], hostname: SET-north-0, nodeName: a-1, conditions: {ready: true}}]
`), "service/"+service, "endpointslice/longest")
	full := service + ".default.svc.cluster.local."
	from := c.Nodes["a-1"].NS
	for _, name := range []string{full, set + "-north-0." + full, set + "-0." + full, strings.ToUpper(set) + "-0." + full} {
		resolvesFrom(t, from, local, name, dns.TypeA, "10.9.6.1")
	}
	resolvesFrom(t, from, local, "_main._tcp."+full, dns.TypeSRV, "0 100 80 "+set+"-north-0."+full)
}
