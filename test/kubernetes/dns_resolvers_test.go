package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

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
	allReady(t, "statefulsetgrids", "db", 2)
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
	resolvesFrom(t, c.Nodes["a-1"].NS, local, "db-south-0.db-svc.default.svc.cluster.local.", dns.TypeA, south)
	resolvesFrom(t, c.Nodes["a-1"].NS, local, "front-svc.default.svc.cluster.local.", dns.TypeA, front)
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
