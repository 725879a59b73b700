package kubernetes

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// dnsFixture has a row for every kind of record of Kubernetes' DNS
// specification, and no grid.
const dnsFixture = `
{apiVersion: v1, kind: Namespace, metadata: {name: dns-same}}
---
{apiVersion: v1, kind: Service, metadata: {name: plain, namespace: dns-same}, spec: {ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}], ipFamilyPolicy: RequireDualStack}}
---
{apiVersion: v1, kind: Service, metadata: {name: unnamed, namespace: dns-same}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: headless, namespace: dns-same}, spec: {clusterIP: None, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: portless, namespace: dns-same}, spec: {clusterIP: None}}
---
{apiVersion: v1, kind: Service, metadata: {name: idle, namespace: dns-same}, spec: {clusterIP: None, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: outside, namespace: dns-same}, spec: {type: ExternalName, externalName: www.example.org}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: headless-4, namespace: dns-same, labels: {kubernetes.io/service-name: headless, service.kubernetes.io/headless: ""}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.9.0.1], hostname: one, conditions: {ready: true}}
- {addresses: [10.9.0.2], hostname: two, conditions: {ready: true}}
- {addresses: [10.9.0.3], conditions: {ready: true}}
- {addresses: [10.9.0.4], hostname: asleep, conditions: {ready: false}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: headless-6, namespace: dns-same, labels: {kubernetes.io/service-name: headless, service.kubernetes.io/headless: ""}}
addressType: IPv6
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: ["fd09::1"], hostname: one, conditions: {ready: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: portless-4, namespace: dns-same, labels: {kubernetes.io/service-name: portless, service.kubernetes.io/headless: ""}}
addressType: IPv4
endpoints: [{addresses: [10.9.1.1], conditions: {ready: true}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: plain-4, namespace: dns-same, labels: {kubernetes.io/service-name: plain}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.9.2.1], hostname: back, conditions: {ready: true}}
- {addresses: [10.9.2.2], conditions: {ready: true}}
- {addresses: [10.9.2.3], hostname: lazy, conditions: {ready: false}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: plain-6, namespace: dns-same, labels: {kubernetes.io/service-name: plain}}
addressType: IPv6
ports: [{name: http, port: 8080, protocol: TCP}, {name: dns, port: 5353, protocol: UDP}]
endpoints:
- {addresses: ["fd09:2::1"], hostname: back, conditions: {ready: true}}
- {addresses: ["fd09:2::"], conditions: {ready: true}}
`

// startCloudDNS runs gridmesh-dns in the cloud with the kubernetes plugin, with
// grid in front of it or without.
func startCloudDNS(t *testing.T, port int, grid string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Corefile")
	text := fmt.Sprintf(".:%d {\n bind 127.0.0.1\n errors\n %s\n kubernetes cluster.local in-addr.arpa ip6.arpa {\n kubeconfig %s\n pods insecure\n }\n}\n", port, grid, c.Kubeconfig)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	p, err := edge.Start(c.Lab.Cloud, "cloud dns", edge.Binary("gridmesh-dns"), "-conf", path)
	must(t, err)
	endsWith(t, p)
}

// exchange asks by UDP and returns the reply in a form that can be compared:
// sections as sorted sets, without ID and serials.
func exchange(port int, name string, qtype uint16) (string, error) {
	m, err := edge.Exchange(c.Lab.Cloud, "udp", fmt.Sprintf("127.0.0.1:%d", port), new(dns.Msg).SetQuestion(name, qtype))
	if err != nil {
		return "", err
	}
	header := m.MsgHdr
	header.Id = 0
	parts := []string{header.String(), fmt.Sprint(m.Question)}
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		var list []string
		for _, rr := range section {
			if soa, ok := rr.(*dns.SOA); ok {
				soa.Serial = 0
			}
			list = append(list, rr.String())
		}
		slices.Sort(list)
		parts = append(parts, strings.Join(list, "\n"))
	}
	return strings.Join(parts, "\n--\n"), nil
}

// With no grid objects the plugin is not there: every answer is what the
// kubernetes plugin alone gives, with Services answered by either.
func TestWithoutGridsNothingDiffers(t *testing.T) {
	applied(t, dnsFixture, "namespace/dns-same")
	const grid = "grid cluster.local in-addr.arpa ip6.arpa {\n node a-1\n source kubeconfig://%s\n services %s\n }"
	startCloudDNS(t, 1153, "")
	startCloudDNS(t, 1154, fmt.Sprintf(grid, c.Kubeconfig, "off"))
	startCloudDNS(t, 1155, fmt.Sprintf(grid, c.Kubeconfig, "on"))
	const ready = "one.headless.dns-same.svc.cluster.local."
	for _, port := range []int{1153, 1154, 1155} {
		wait.Eventually(t, func() error {
			got, err := exchange(port, ready, dns.TypeA)
			if err == nil && !strings.Contains(got, "10.9.0.1") {
				err = fmt.Errorf("%s", got)
			}
			return err
		})
	}
	plain, err := c.Kubectl("get", "service", "-n", "dns-same", "plain", "-o", "jsonpath={.spec.clusterIPs[*]}")
	must(t, err)
	var names []string
	for _, service := range []string{"plain", "unnamed", "headless", "portless", "idle", "outside", "nobody", "PLAIN", "*"} {
		full := service + ".dns-same.svc.cluster.local."
		names = append(names, full)
		for _, below := range []string{"one", "two", "asleep", "back", "lazy", "10-9-0-3", "10-9-2-1", "10-9-2-2", "10-9-2-3", "fd09--1", "fd09-2--1", "fd09-2--0", "_http._tcp", "_dns._udp", "_http._udp", "_none._tcp", "_tcp", "http.tcp", "a.b", "db-0"} {
			names = append(names, below+"."+full)
		}
	}
	names = append(names, "cluster.local.", "svc.cluster.local.", "dns-same.svc.cluster.local.", "nowhere.svc.cluster.local.", "dns-version.cluster.local.", "ns.dns.cluster.local.",
		"10-9-0-1.dns-same.pod.cluster.local.", "pod.cluster.local.", "kubernetes.default.svc.cluster.local.", "example.org.", ".")
	for _, ip := range append(strings.Fields(plain), "10.9.0.1", "10.9.0.3", "10.9.0.4", "10.9.2.1", "fd09::1", "10.9.9.9") {
		name, err := dns.ReverseAddr(ip)
		must(t, err)
		names = append(names, name)
	}
	r := rand.New(rand.NewPCG(1, 1))
	labels := []string{"plain", "headless", "idle", "dns-same", "default", "svc", "pod", "cluster", "local", "_http", "_tcp", "one", "db-0", "-", "_", "in-addr", "arpa", "10", strings.Repeat("x", 63)}
	for range 300 {
		var list []string
		for range 1 + r.IntN(7) {
			list = append(list, labels[r.IntN(len(labels))])
		}
		suffix := []string{".", ".svc.cluster.local.", ".dns-same.svc.cluster.local."}[r.IntN(3)]
		names = append(names, strings.Join(list, ".")+suffix)
	}
	asked, differ := 0, 0
	for _, name := range names {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeMX, dns.TypeSOA, dns.TypeNS, dns.TypeCNAME} {
			want, err := exchange(1153, name, qtype)
			must(t, err)
			for port, services := range map[int]string{1154: "off", 1155: "on"} {
				if services == "on" && qtype == dns.TypeSOA && name != "cluster.local." {
					continue // the kubernetes plugin has no name that does not exist, where the SOA is asked for
				}
				got, err := exchange(port, name, qtype)
				must(t, err)
				if asked++; got != want {
					if differ++; differ < 5 {
						t.Errorf("%s %s:\n%s\nand without grid, which has services %s here:\n%s", name, dns.TypeToString[qtype], got, services, want)
					}
				}
			}
		}
	}
	t.Logf("%d questions, %d answers differ", asked, differ)
}
