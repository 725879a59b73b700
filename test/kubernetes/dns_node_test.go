package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// upstreamDNS is the cluster's DNS in the cloud: Services by the kubernetes
// plugin, and one name outside the cluster.
func upstreamDNS(t *testing.T) *edge.Process {
	t.Helper()
	text := fmt.Sprintf(`.:53 {
    bind %s
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
    }
    template IN A www.example.org {
        answer "{{ .Name }} 2 IN A 192.0.2.80"
    }
    template ANY ANY www.example.org {
        authority "example.org. 2 IN SOA ns.example.org. hostmaster.example.org. 1 60 60 60 2"
    }
    template ANY ANY {
        match "(^|[.])(org|nobody|south|both|db-svc|default|svc)[.]$"
        fallthrough
        rcode NXDOMAIN
        authority ". 2 IN SOA ns.example.org. hostmaster.example.org. 1 60 60 60 2"
    }
}
`, netlab.CloudIP, c.Kubeconfig)
	path := filepath.Join(t.TempDir(), "Corefile")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	p, err := edge.Start(c.Lab.Cloud, "cluster's dns", edge.Binary("gridmesh-dns"), "-conf", path)
	must(t, err)
	endsWith(t, p)
	return p
}

// nodeDNS runs DNS on a-1 as deploy/ does.
func nodeDNS(t *testing.T) {
	t.Helper()
	n := c.Nodes["a-1"]
	must(t, os.RemoveAll(n.Dir+"/dns.v1"))
	must(t, n.StartDNS(netlab.CloudIP.String()))
	t.Cleanup(func() { endsWith(t, n.DNS) }) // the one that runs then
	resolvesFrom(t, n.NS, local, "kubernetes.default.svc.cluster.local.", dns.TypeA, "10.96.0.1")
}

// local is where pods find their node's DNS.
var local = net.JoinHostPort(edge.NodeDNS[0], "53")

// client is a pod that resolves by its own /etc/resolv.conf.
const client = `
apiVersion: v1
kind: Pod
metadata: {name: client, labels: {app: client}}
spec:
  nodeName: a-1
  terminationGracePeriodSeconds: 1
  containers: [{name: client, image: gridmesh.test/resolvers}]
`

// inPod runs a program in a pod and returns its output.
func inPod(uid string, argv ...string) (string, error) {
	pids, err := edge.PodProcesses(uid)
	if err != nil {
		return "", err
	}
	ns, err := netlab.OpenNS("pod-" + uid)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd := exec.Command("chroot", append([]string{fmt.Sprintf("/proc/%d/root", pids[0])}, argv...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	if err := ns.Start(cmd); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out.String())
	}
	return out.String(), nil
}

// The resolvers of glibc, musl and Go, and dig, in a pod with kubelet's
// resolv.conf (three search domains, ndots 5): short and long names, one and
// two families, names that are empty, or do not exist, and one outside.
func TestRealResolvers(t *testing.T) {
	upstreamDNS(t)
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	controller(t)
	nodeDNS(t)
	applied(t, strings.NewReplacer("NAME", "db", "VERSION", "1").Replace(dnsGrids), "statefulsetgrid/db", "servicegrid/db", "servicegrid/front")
	applied(t, client, "pod/client")
	applied(t, `
{apiVersion: v1, kind: Service, metadata: {name: both}, spec: {ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: south, labels: {superedge.io/grid-uniq-key: site}, annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: None, ports: [{name: main, port: 80}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: south-4, labels: {kubernetes.io/service-name: south}}
addressType: IPv4
ports: [{name: main, port: 80}]
endpoints: [{addresses: [10.9.4.1], nodeName: b-1, conditions: {ready: true}}]
`, "service/both", "service/south", "endpointslice/south-4")
	whole(t, "statefulsetgrids", "db", 2)
	pods, err := c.WaitPods(patient(t), "default", "app=client", 1)
	must(t, err)
	uid := string(pods[0].UID)

	value := func(path ...string) string {
		t.Helper()
		out, err := c.Kubectl(append([]string{"get", "-o"}, path...)...)
		must(t, err)
		return strings.Join(strings.Fields(out), " ")
	}
	north := value("jsonpath={.status.podIP}", "pod", "db-north-0")
	south := value("jsonpath={.status.podIP}", "pod", "db-south-0")
	front := value("jsonpath={.spec.clusterIP}", "service", "front-svc")
	both := strings.Fields(value("jsonpath={.spec.clusterIPs[*]}", "service", "both"))
	slices.Sort(both)
	want := map[string]string{
		"db-0.db-svc":                           north,
		"db-0.db-svc.default.svc.cluster.local": north,
		"DB-0.Db-Svc.default":                   north,
		"db-svc":                                north,
		"db-south-0.db-svc":                     south,
		"front-svc":                             front,
		"front-svc.default.svc":                 front,
		"front-svc.default.svc.cluster.local.":  front,
		"both":                                  strings.Join(both, " "),
		"south":                                 "", // it has an endpoint, but not here
		"nobody":                                "",
		"db-7.db-svc":                           "",
		"www.example.org":                       "192.0.2.80",
		"www.example.org.":                      "192.0.2.80",
		"nowhere.example.org":                   "",
		"kubernetes.default":                    "10.96.0.1",
		strings.Repeat("x", 63) + ".db-svc":     "",
		strings.Repeat("x", 63) + ".example.org.": "",
	}
	resolvesFrom(t, c.Nodes["a-1"].NS, local, "db-0.db-svc.default.svc.cluster.local.", dns.TypeA, north)
	resolvesFrom(t, c.Nodes["a-1"].NS, local, "both.default.svc.cluster.local.", dns.TypeAAAA, both[1])
	resolveAll(t, uid, want)
	digs(t, uid, want)

	// The same with the cloud cut off and the DNS restarted, for what the node
	// knows; no resolver waits for servers that are away, or gives up for them.
	u, n := c.Lab.Unit("a"), c.Nodes["a-1"]
	wait.Eventually(t, func() error {
		return errors.Join(
			n.Kept(edge.DNSState, "default/db-svc", netip.MustParseAddr(north), netip.MustParseAddr(south)),
			n.Kept(edge.DNSState, "default/front-svc"), n.Kept(edge.DNSState, "default/both"), n.Kept(edge.DNSState, "default/kubernetes"))
	})
	must(t, u.CutUplink())
	t.Cleanup(func() { must(t, u.HealUplink()) })
	n.DNS.Kill()
	must(t, n.StartDNS(netlab.CloudIP.String()))
	resolvesFrom(t, n.NS, local, "kubernetes.default.svc.cluster.local.", dns.TypeA, "10.96.0.1")
	known := map[string]string{}
	for name, addrs := range want {
		if addrs != "" && !strings.Contains(name, "example.org") {
			known[name] = addrs
		}
	}
	if took := resolveAll(t, uid, known); took > 15*time.Second {
		t.Errorf("%d names that the node knows took the slowest resolver %s", len(known), took)
	}
}

// resolveAll asks with every resolver, and returns what the slowest took.
func resolveAll(t *testing.T, uid string, want map[string]string) (slowest time.Duration) {
	t.Helper()
	names := slices.Sorted(maps.Keys(want))
	for _, resolver := range [][]string{{"/app/resolve-glibc"}, {"/app/resolve-musl"}, {"/app/lab-worker", "resolve"}} {
		start := time.Now()
		out, err := inPod(uid, append(resolver, names...)...)
		must(t, err)
		took := time.Since(start)
		slowest = max(slowest, took)
		t.Logf("%s: %d names in %s", strings.Join(resolver, " "), len(names), took)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != len(names) {
			t.Fatalf("%s printed\n%s", resolver, out)
		}
		for i, name := range names {
			fields := strings.Fields(lines[i])
			if want[name] == "" {
				if fields[0] != name+":" {
					t.Errorf("%s: %s, want an error", resolver, lines[i])
				}
			} else if fields[0] != name || strings.Join(fields[1:], " ") != want[name] {
				t.Errorf("%s: %s, want %s", resolver, lines[i], want[name])
			}
		}
	}
	return slowest
}

// digs asks for the same names with dig, which follows the search list too.
func digs(t *testing.T, uid string, want map[string]string) {
	t.Helper()
	if _, err := exec.LookPath("dig"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Log("dig is not installed: not asked with it")
		return
	}
	for name, addrs := range want {
		out, err := inPod(uid, "dig", "+search", "+short", name, "A", name, "AAAA")
		must(t, err)
		got := strings.Fields(out)
		slices.Sort(got)
		if strings.Join(got, " ") != addrs {
			t.Errorf("dig %s: %q, want %q", name, got, addrs)
		}
	}
	out, err := inPod(uid, "dig", "+search", "_main._tcp.db-svc", "SRV")
	must(t, err)
	if !strings.Contains(out, "status: NOERROR") || !strings.Contains(out, "0 100 8080 db-north-0.db-svc.default.svc.cluster.local.") || !strings.Contains(out, "EDNS: version: 0") {
		t.Errorf("dig SRV:\n%s", out)
	}
}

// With the cloud cut off, a name from outside is answered from the cache when
// its time is over, and what the node knows as ever.
func TestUpstreamNamesServedStale(t *testing.T) {
	upstreamDNS(t)
	nodeDNS(t)
	from := c.Nodes["a-1"].NS
	resolvesFrom(t, from, local, "www.example.org.", dns.TypeA, "192.0.2.80")
	u := c.Lab.Unit("a")
	must(t, u.CutUplink())
	t.Cleanup(func() { must(t, u.HealUplink()) })
	cut := time.Now()
	const firstTry = time.Second // less than a server that is away is waited for
	time.Sleep(3 * time.Second)  // longer than its TTL, 2 s
	for quick := 0; quick < 5; {
		start := time.Now()
		m, err := edge.Exchange(from, "udp", local, new(dns.Msg).SetQuestion("www.example.org.", dns.TypeA))
		took := time.Since(start)
		if err != nil || len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != "192.0.2.80" {
			t.Fatalf("stale, after %s: %v, %s", took, err, m)
		}
		t.Logf("%s after the cut a stale answer took %s", time.Since(cut).Round(time.Millisecond), took)
		if took < firstTry {
			quick++
		} else if quick > 0 || time.Since(cut) > 40*time.Second {
			t.Errorf("after %s a stale answer took %s", time.Since(cut), took)
		}
		resolvesFrom(t, from, local, "kubernetes.default.svc.cluster.local.", dns.TypeA, "10.96.0.1")
		time.Sleep(300 * time.Millisecond) // apart, as people ask
	}
	m, err := edge.Exchange(from, "udp", local, new(dns.Msg).SetQuestion("never-asked.example.org.", dns.TypeA))
	if err == nil && m.Rcode != dns.RcodeServerFailure {
		t.Errorf("a name that nobody knows: %s", m)
	}
	must(t, u.HealUplink())
	took := wait.Eventually(t, func() error {
		m, err := edge.Exchange(from, "udp", local, new(dns.Msg).SetQuestion("never-asked.example.org.", dns.TypeA))
		if err == nil && m.Rcode != dns.RcodeNameError {
			err = fmt.Errorf("%s", m)
		}
		return err
	})
	t.Logf("names from outside are asked for again %s after the uplink is back", took)
}

// crowd is a closed headless Service with n endpoints of each family on a-1,
// and as many on b-1.
func crowd(n int) string {
	var b strings.Builder
	b.WriteString(`{apiVersion: v1, kind: Service, metadata: {name: crowd, labels: {superedge.io/grid-uniq-key: site}, annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: None, ipFamilyPolicy: RequireDualStack, ports: [{name: main, port: 80}]}}` + "\n")
	for unit, node := range []string{"a-1", "b-1"} {
		for _, family := range []string{"IPv4", "IPv6"} {
			fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: crowd-%s-%s, labels: {kubernetes.io/service-name: crowd}}\naddressType: %s\nports: [{name: main, port: 80}]\nendpoints:\n",
				node, strings.ToLower(family), family)
			for i := range n {
				ip := netip.AddrFrom4([4]byte{10, 9, byte(10 + unit), byte(i + 1)}).String()
				if family == "IPv6" {
					ip = fmt.Sprintf("fd09::%d:%x", 10+unit, i+1)
				}
				fmt.Fprintf(&b, "- {addresses: [%q], nodeName: %s, hostname: crowd-%s-%d, conditions: {ready: true}}\n", ip, node, node, i)
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
	applied(t, crowd(n), "service/crowd", "endpointslice/crowd-a-1-ipv4", "endpointslice/crowd-a-1-ipv6", "endpointslice/crowd-b-1-ipv4", "endpointslice/crowd-b-1-ipv6")
	from, name := c.Nodes["a-1"].NS, "crowd.default.svc.cluster.local."
	want := map[string]bool{}
	for i := range n {
		want[fmt.Sprintf("10.9.10.%d", i+1)] = true
	}
	ask := func(network string, size uint16, qtype uint16) *dns.Msg {
		t.Helper()
		q := new(dns.Msg).SetQuestion(name, qtype)
		if qtype == dns.TypeSRV {
			q.SetQuestion("_main._tcp."+name, qtype)
		}
		if size > 0 {
			q.SetEdns0(size, false)
		}
		m, err := edge.Exchange(from, network, local, q)
		must(t, err)
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
		return m
	}
	wait.Eventually(t, func() error { // not once with another unit's
		if got := ask("tcp", 0, dns.TypeA); len(got.Answer) != n {
			return fmt.Errorf("%d addresses", len(got.Answer))
		}
		return nil
	})
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
		m := ask(c.network, c.size, c.qtype)
		t.Logf("%s, EDNS %d, %s: %d of %d records, TC %v", c.network, c.size, dns.TypeToString[c.qtype], len(m.Answer), n, m.Truncated)
		if m.Truncated != c.cut || !c.cut && len(m.Answer) != n {
			t.Errorf("%s, EDNS %d, %s: TC %v and %d records", c.network, c.size, dns.TypeToString[c.qtype], m.Truncated, len(m.Answer))
		}
	}
}

// sleepers are a pod that is never ready, and headless Services that have it,
// with and without publishNotReadyAddresses.
const sleepers = `
{apiVersion: v1, kind: Pod, metadata: {name: sleeper, labels: {app: sleeper}}, spec: {nodeName: a-1, terminationGracePeriodSeconds: 1, containers: [{name: app, image: gridmesh.test/app, readinessProbe: {tcpSocket: {port: 1}, periodSeconds: 1}}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: quiet, labels: {superedge.io/grid-uniq-key: site}, annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: None, selector: {app: sleeper}, ports: [{name: main, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: loud, labels: {superedge.io/grid-uniq-key: site}, annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: sleeper}, ports: [{name: main, port: 80}]}}
`

// cached is longer than the cache of deploy/dns.yaml keeps an answer of the
// plugin grid, which is 2 s.
const cached = 5 * time.Second

// What changes in the cluster is what names stand for, through the cache of
// the Corefile of deploy/, though each name was asked for just before, and
// logs what each took: the cache may keep an answer for 2 s.
func TestNamesFollow(t *testing.T) {
	upstreamDNS(t)
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	controller(t)
	nodeDNS(t)
	from := c.Nodes["a-1"].NS
	ask := func(name string, qtype uint16) (string, error) {
		m, err := edge.Exchange(from, "udp", local, new(dns.Msg).SetQuestion(name+".default.svc.cluster.local.", qtype))
		if err != nil {
			return "", err
		}
		list := []string{dns.RcodeToString[m.Rcode]}
		for _, rr := range m.Answer {
			list = append(list, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
		slices.Sort(list[1:])
		return strings.Join(list, " "), nil
	}
	// becomes waits for an answer, and tells how long it took.
	becomes := func(what, name string, qtype uint16, want string) {
		t.Helper()
		took := wait.Eventually(t, func() error {
			got, err := ask(name, qtype)
			if err == nil && got != want {
				err = fmt.Errorf("%s: %s is %q, want %q", what, name, got, want)
			}
			return err
		})
		t.Logf("%s: %s", what, took.Round(time.Millisecond))
	}
	ipOf := func(pod string) (ip string) {
		t.Helper()
		wait.Eventually(t, func() error {
			p, err := c.Kube.CoreV1().Pods("default").Get(patient(t), pod, metav1.GetOptions{})
			if err == nil && (p.DeletionTimestamp != nil || p.Status.PodIP == "" || p.Status.ContainerStatuses[0].State.Running == nil) {
				err = fmt.Errorf("%s does not run", pod)
			}
			if err == nil {
				ip = p.Status.PodIP
			}
			return err
		})
		return ip
	}

	// Names that do not exist yet are asked for, and denied, by grid and by the
	// cluster's DNS; then they are made.
	for _, name := range []string{"late", "db-0.db-svc", "db-svc"} {
		becomes("not made yet", name, dns.TypeA, "NXDOMAIN")
	}
	applied(t, "{apiVersion: v1, kind: Service, metadata: {name: late}, spec: {ports: [{port: 80}]}}", "service/late")
	late, err := c.Kubectl("get", "service", "late", "-o", "jsonpath={.spec.clusterIP}")
	must(t, err)
	becomes("a Service that was denied is made", "late", dns.TypeA, "NOERROR "+late)
	applied(t, strings.NewReplacer("NAME", "db", "VERSION", "1").Replace(dnsGrids), "statefulsetgrid/db", "servicegrid/db", "servicegrid/front")
	whole(t, "statefulsetgrids", "db", 2)
	north := ipOf("db-north-0")
	becomes("a set that was denied is made", "db-0.db-svc", dns.TypeA, "NOERROR "+north)
	becomes("its headless Service", "db-svc", dns.TypeA, "NOERROR "+north)

	_, err = c.Kubectl("delete", "pod", "db-north-0", "--wait=true")
	must(t, err)
	again := ipOf("db-north-0")
	if again == north {
		t.Logf("the new pod has the address of the old, %s", again)
	}
	becomes("a pod is replaced", "db-0.db-svc", dns.TypeA, "NOERROR "+again)

	// Who asks but now and then is not told what was: the cache holds answers
	// of long ago for when the cloud is away.
	_, err = c.Kubectl("delete", "pod", "db-north-0", "--wait=true")
	must(t, err)
	again = ipOf("db-north-0")
	becomes("a pod is replaced, by a name that nobody has asked for", "db-north-0.db-svc", dns.TypeA, "NOERROR "+again)
	time.Sleep(cached)
	for _, name := range []string{"db-0.db-svc", "db-svc"} {
		if got, err := ask(name, dns.TypeA); err != nil || got != "NOERROR "+again {
			t.Errorf("the first answer for %s, %s after its pod was replaced: %s, %v; want %s", name, cached, got, err, again)
		}
	}

	label(t, "a-1", "south") // its own pod goes with the node's label
	south := ipOf("db-south-0")
	becomes("the node is in another unit", "db-0.db-svc", dns.TypeA, "NOERROR "+south)
	label(t, "a-1", "")
	becomes("the node is in no unit", "db-svc", dns.TypeA, "NOERROR")
	becomes("the node is in no unit", "db-0.db-svc", dns.TypeA, "NOERROR")
	becomes("full names resolve all the same", "db-south-0.db-svc", dns.TypeA, "NOERROR "+south)
	label(t, "a-1", "north")
	becomes("the node is back", "db-0.db-svc", dns.TypeA, "NOERROR "+ipOf("db-north-0"))

	applied(t, sleepers, "pod/sleeper", "service/quiet", "service/loud")
	sleeper := ipOf("sleeper")
	becomes("a pod that is not ready, published", "loud", dns.TypeA, "NOERROR "+sleeper)
	becomes("a pod that is not ready", "quiet", dns.TypeA, "NXDOMAIN")

	_, err = c.Kubectl("delete", "statefulsetgrid/db", "--wait=true")
	must(t, err)
	_, err = c.WaitPods(patient(t), "default", "app=db", 0)
	must(t, err)
	becomes("the set is deleted", "db-svc", dns.TypeA, "NXDOMAIN")
	becomes("the set is deleted", "db-0.db-svc", dns.TypeA, "NXDOMAIN")
	_, err = c.Kubectl("delete", "servicegrid/db", "service/late", "--wait=true")
	must(t, err)
	becomes("the Service is deleted", "late", dns.TypeA, "NXDOMAIN")
	becomes("the ServiceGrid is deleted", "db-svc", dns.TypeA, "NXDOMAIN")
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

// The DNS tells where its data is from, and how old it is.
func TestDNSTellsOfItsData(t *testing.T) {
	nodeDNS(t)
	n := c.Nodes["a-1"]
	source := fmt.Sprintf(`source="unix://%s/feed.sock"`, n.Dir)
	tells := func(origin string, most float64) {
		t.Helper()
		took := wait.Eventually(t, func() error {
			text, err := n.DNSMetrics()
			if err != nil {
				return err
			}
			age := -1.0
			for line := range strings.Lines(text) {
				_, _ = fmt.Sscanf(line, "coredns_grid_data_age_seconds{"+source+"} %g", &age)
			}
			if !strings.Contains(text, fmt.Sprintf("coredns_grid_data_origin{origin=%q,%s} 1\n", origin, source)) || age < 0 || age > most {
				return fmt.Errorf("age %g, want origin %s in\n%s", age, origin, text)
			}
			return nil
		})
		t.Logf("data from the %s after %s", origin, took)
	}
	tells("source", 90) // the API server says something about once a minute
	wait.Eventually(t, func() error { _, err := os.Stat(n.Dir + "/dns.v1"); return err })
	n.Agent.Kill()
	t.Cleanup(func() {
		if !n.Agent.Running() {
			must(t, n.StartAgent())
		}
	})
	n.DNS.Kill()
	must(t, n.StartDNS(netlab.CloudIP.String()))
	tells("snapshot", 60)
	resolvesFrom(t, n.NS, local, "kubernetes.default.svc.cluster.local.", dns.TypeA, "10.96.0.1")
	must(t, n.StartAgent())
	tells("source", 90)
}
