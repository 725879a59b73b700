package kubernetes

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"

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
	const firstTry = 2 * time.Second // that a server is waited for that is away, by deploy/dns.yaml: less was no try
	time.Sleep(3 * time.Second)      // longer than its TTL, 2 s
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

// A machine beside the node, which routes the DNS' addresses to it, is refused;
// the node itself is answered.
func TestNeighboursMayNotAsk(t *testing.T) {
	nodeDNS(t)
	n, neighbour := c.Nodes["a-1"], c.Lab.Unit("a").Router
	name := "kubernetes.default.svc.cluster.local."
	for i, via := range []netip.Addr{n.IP, n.IP6} {
		server := netip.MustParseAddr(edge.NodeDNS[i])
		route := &netlink.Route{Dst: netlink.NewIPNet(server.AsSlice()), Gw: via.AsSlice()}
		must(t, neighbour.Do(func() error { return netlink.RouteAdd(route) }))
		t.Cleanup(func() { must(t, neighbour.Do(func() error { return netlink.RouteDel(route) })) })
		address := net.JoinHostPort(edge.NodeDNS[i], "53")
		for _, network := range []string{"udp", "tcp"} {
			m, err := edge.Exchange(neighbour, network, address, new(dns.Msg).SetQuestion(name, dns.TypeA))
			must(t, err)
			if m.Rcode != dns.RcodeRefused || len(m.Answer) > 0 {
				t.Errorf("a neighbour is told by %s at %s\n%s", network, address, m)
			}
		}
		resolvesFrom(t, n.NS, address, name, dns.TypeA, "10.96.0.1")
	}
}

// The DNS tells where its data is from, and how old it is.
func TestDNSTellsOfItsData(t *testing.T) {
	begun := time.Now()
	nodeDNS(t)
	n := c.Nodes["a-1"]
	source := fmt.Sprintf(`source="unix://%s/feed.sock"`, n.Dir)
	tells := func(origin string, most func() time.Duration) {
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
			if !strings.Contains(text, fmt.Sprintf("coredns_grid_data_origin{origin=%q,%s} 1\n", origin, source)) || age < 0 || age > most().Seconds() {
				return fmt.Errorf("age %g, want origin %s in\n%s", age, origin, text)
			}
			return nil
		})
		t.Logf("data from the %s after %s", origin, took)
	}
	lives := func() time.Duration { return 90 * time.Second } // the API server says something about once a minute
	tells("source", lives)
	wait.Eventually(t, func() error { _, err := os.Stat(n.Dir + "/dns.v1"); return err })
	n.Agent.Kill()
	t.Cleanup(func() {
		if !n.Agent.Running() {
			must(t, n.StartAgent())
		}
	})
	n.DNS.Kill()
	must(t, n.StartDNS(netlab.CloudIP.String()))
	tells("snapshot", func() time.Duration { return time.Since(begun) }) // since then it was written, and only when something changed
	resolvesFrom(t, n.NS, local, "kubernetes.default.svc.cluster.local.", dns.TypeA, "10.96.0.1")
	must(t, n.StartAgent())
	tells("source", lives)
}
