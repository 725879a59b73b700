package kubernetes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const dnsCorefile = `
.:1053 {
    bind 127.0.0.1
    errors
    grid cluster.local in-addr.arpa ip6.arpa {
        node NODE
        source unix://DIR/feed.sock
        services on
        snapshot DIR/dns.v1
    }
}
`

// startDNS runs gridmesh-dns on a node, with the data of its agent.
func startDNS(t *testing.T, node string) *edge.Process {
	t.Helper()
	n := c.Nodes[node]
	path := filepath.Join(t.TempDir(), node)
	must(t, os.WriteFile(path, []byte(strings.NewReplacer("NODE", node, "DIR", n.Dir).Replace(dnsCorefile)), 0o600))
	p, err := edge.Start(n.NS, "dns "+node, edge.Binary("gridmesh-dns"), "-conf", path)
	must(t, err)
	endsWith(t, p)
	return p
}

// resolves waits until a node's DNS gives the data that is wanted, sorted.
func resolves(t *testing.T, node, name string, qtype uint16, want ...string) time.Duration {
	t.Helper()
	return resolvesFrom(t, c.Nodes[node].NS, "127.0.0.1:1053", name, qtype, want...)
}

// resolvesFrom asks a server from a network namespace.
func resolvesFrom(t *testing.T, from *netlab.NS, server, name string, qtype uint16, want ...string) time.Duration {
	t.Helper()
	return wait.Eventually(t, func() error {
		got, err := edge.Resolve(from, server, name, qtype)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%s from %s: %q, want %q", name, from.Name, got, want)
		}
		return err
	})
}

// noName asks a node's DNS for a name that does not exist.
func noName(t *testing.T, node, name string) {
	t.Helper()
	m, err := edge.Exchange(c.Nodes[node].NS, "udp", "127.0.0.1:1053", new(dns.Msg).SetQuestion(name, dns.TypeA))
	must(t, err)
	if m.Rcode != dns.RcodeNameError {
		t.Errorf("%s: %s %v, want NXDOMAIN", name, dns.RcodeToString[m.Rcode], m.Answer)
	}
}

const dnsGrids = `
apiVersion: superedge.io/v1
kind: StatefulSetGrid
metadata: {name: db}
spec:
  gridUniqKey: site
  template: {serviceName: db-svc, ` + podsOf + `}
---
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: db}
spec:
  gridUniqKey: site
  template: {clusterIP: None, selector: {app: db}, ports: [{name: main, port: 8080}]}
---
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: front}
spec:
  gridUniqKey: site
  template: {selector: {app: db}, ports: [{name: main, port: 80, targetPort: main}]}
`

// The same names in two units: an ordinal, a headless Service, a Service with
// a ClusterIP and PTR; after a label; and with the cloud cut off and the DNS
// killed.
func TestGridNamesResolve(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	controller(t)
	applied(t, strings.NewReplacer("NAME", "db", "VERSION", "1").Replace(dnsGrids), "statefulsetgrid/db", "servicegrid/db", "servicegrid/front")
	allReady(t, "statefulsetgrids", "db", 2)
	ips := map[string]string{}
	for _, unit := range []string{"north", "south"} {
		pod, err := c.Kube.CoreV1().Pods("default").Get(patient(t), "db-"+unit+"-0", metav1.GetOptions{})
		must(t, err)
		ips[unit] = pod.Status.PodIP
	}
	front, err := c.Kube.CoreV1().Services("default").Get(patient(t), "front-svc", metav1.GetOptions{})
	must(t, err)

	const ordinal, headless = "db-0.db-svc.default.svc.cluster.local.", "db-svc.default.svc.cluster.local."
	processes := map[string]*edge.Process{"a-1": startDNS(t, "a-1"), "b-1": startDNS(t, "b-1")}
	for node, unit := range map[string]string{"a-1": "north", "b-1": "south"} {
		resolves(t, node, ordinal, dns.TypeA, ips[unit])
		resolves(t, node, headless, dns.TypeA, ips[unit])
		resolves(t, node, "_main._tcp."+headless, dns.TypeSRV, "0 100 8080 db-"+unit+"-0."+headless)
		resolves(t, node, "db-south-0."+headless, dns.TypeA, ips["south"])
		resolves(t, node, "front-svc.default.svc.cluster.local.", dns.TypeA, front.Spec.ClusterIP)
		reverse, err := dns.ReverseAddr(front.Spec.ClusterIP)
		must(t, err)
		resolves(t, node, reverse, dns.TypePTR, "front-svc.default.svc.cluster.local.")
		below := strings.NewReplacer(".", "-", ":", "-").Replace(ips[unit]) + ".front-svc.default.svc.cluster.local."
		resolves(t, node, below, dns.TypeA, ips[unit]) // of a Service with a ClusterIP, as CoreDNS' own plugin has it
		resolves(t, node, "_main._tcp.front-svc.default.svc.cluster.local.", dns.TypeSRV, "0 100 80 front-svc.default.svc.cluster.local.")
		// Kubernetes writes hostnames into slices of the Service that is the pods' subdomain alone.
		noName(t, node, "db-"+unit+"-0.front-svc.default.svc.cluster.local.")
	}

	hostsFile(t, "b-1", ips["south"]+" db-0."+strings.TrimSuffix(headless, ".")+"\n")

	label(t, "b-1", "north") // the node moves; its pod goes with it
	took := resolves(t, "b-1", "db-0."+headless, dns.TypeA, ips["north"])
	t.Logf("a label was followed after %s", took)
	label(t, "b-1", "south")
	resolves(t, "b-1", ordinal, dns.TypeA, ips["south"])

	kept := func() error {
		n := c.Nodes["a-1"]
		return errors.Join(n.Kept(edge.DNSState, "default/front-svc"), n.KeptLabel(edge.DNSState, "b-1", "site", "south"),
			n.Kept(edge.DNSState, "default/db-svc", netip.MustParseAddr(ips["north"]), netip.MustParseAddr(ips["south"])))
	}
	wait.Eventually(t, kept)
	must(t, c.Lab.Unit("a").CutUplink())
	t.Cleanup(func() { must(t, c.Lab.Unit("a").HealUplink()) })
	all := func(what string) {
		t.Helper()
		start := time.Now()
		resolves(t, "a-1", ordinal, dns.TypeA, ips["north"])
		resolves(t, "a-1", headless, dns.TypeA, ips["north"])
		resolves(t, "a-1", "front-svc.default.svc.cluster.local.", dns.TypeA, front.Spec.ClusterIP)
		t.Logf("without a cloud, %s: all names resolved after %s", what, time.Since(start))
	}
	p := processes["a-1"]
	restart := func() {
		p.Kill()
		p = startDNS(t, "a-1")
	}
	restart()
	all("DNS restarted")
	// The agent's last good state has what it serves, and not what DNS knows.
	n := c.Nodes["a-1"]
	n.Agent.Kill()
	must(t, n.StartAgent())
	must(t, n.WaitReady(patient(t)))
	wait.Eventually(t, func() error {
		if !strings.Contains(p.Log(), "has but a part of the data") {
			return errors.New("DNS has not heard of the agent")
		}
		return nil
	})
	all("agent restarted")
	wait.Holds(t, 11*time.Second, kept) // longer than the 10 s between two snapshots: a part is not written over all
	restart()
	all("DNS restarted after the agent")
	n.Agent.Kill()
	restart()
	all("no agent, DNS restarted")
	must(t, n.StartAgent())
	must(t, c.Lab.Unit("a").HealUplink())
	label(t, "b-1", "north")
	resolves(t, "a-1", headless, dns.TypeA, sorted(ips["north"], ips["south"])...)
}

func sorted(list ...string) []string {
	slices.Sort(list)
	return list
}

// hostsFile: an agent that is asked to keeps the ordinals in a file.
func hostsFile(t *testing.T, node, want string) {
	t.Helper()
	n := c.Nodes[node]
	path := filepath.Join(n.Dir, "hosts")
	withFlags(t, n, "--hosts-file", path)
	wait.Eventually(t, func() error {
		got, err := os.ReadFile(path)
		if err == nil && string(got) != want {
			err = fmt.Errorf("the hosts file says %q, want %q", got, want)
		}
		return err
	})
}

// withFlags has an agent run with more flags for a test.
func withFlags(t *testing.T, n *cluster.Node, more ...string) {
	t.Helper()
	flags := n.Flags
	restart := func() {
		n.Agent.Signal(syscall.SIGTERM)
		must(t, n.StartAgent())
		must(t, n.WaitReady(patient(t)))
	}
	n.Flags = append(slices.Clone(flags), more...)
	t.Cleanup(func() { n.Flags = flags; restart() })
	restart()
}

// deployedDNS: a pod of a node with deploy/ resolves at the node-local
// addresses, by both families, what the agent knows.
func deployedDNS(t *testing.T, a *app, node string) {
	t.Helper()
	for _, ip := range edge.NodeDNS {
		server := net.JoinHostPort(ip, "53")
		took := resolvesFrom(t, a.ns(t, node), server, a.name+".default.svc.cluster.local.", dns.TypeA, a.svc.Spec.ClusterIPs[0])
		t.Logf("a pod of %s resolved at %s after %s", node, server, took)
	}
}
