package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// extraAgent starts an agent on a node that has none.
func extraAgent(t *testing.T, n *cluster.Node, flags ...string) *edge.Process {
	t.Helper()
	p, _ := extraAgentIn(t, n, flags...)
	return p
}

// extraAgentIn returns its state directory, too.
func extraAgentIn(t *testing.T, n *cluster.Node, flags ...string) (*edge.Process, string) {
	t.Helper()
	kubeconfig, err := c.AgentKubeconfig()
	must(t, err)
	dir := t.TempDir()
	p, err := edge.Start(n.NS, "extra agent", append([]string{
		edge.Binary("gridmesh-agent"), "--kubeconfig", kubeconfig, "--node-name", n.Name, "--state-dir", dir + "/state",
		"--xds-socket", dir + "/x", "--status-socket", dir + "/s", "--feed-socket", dir + "/f", "--admin-socket", dir + "/a",
	}, flags...)...)
	must(t, err)
	t.Cleanup(p.Kill)
	return p, dir + "/state"
}

func wantRefused(t *testing.T, p *edge.Process, parts ...string) {
	t.Helper()
	if code := p.ExitCode(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	for _, part := range parts {
		if !strings.Contains(p.Log(), part) {
			t.Errorf("does not say %q:\n%s", part, p.Log())
		}
	}
}

// ruleset is what an agent that does not start may not change: the names of
// the tables, and what netfilter does on bridges.
func ruleset(t *testing.T, n *cluster.Node) string {
	t.Helper()
	conn, err := n.NS.NFT()
	must(t, err)
	tables, err := conn.ListTables()
	must(t, err)
	var found []string
	for _, table := range tables {
		found = append(found, fmt.Sprintf("%d/%s", table.Family, table.Name))
	}
	slices.Sort(found)
	bridged, err := n.NS.ReadSysctl("net/bridge/bridge-nf-call-iptables")
	must(t, err)
	return fmt.Sprint(found, bridged)
}

// A NetworkPolicy is anybody's to make: an agent that has Envoy alone serves beside it and
// says so; where the operator wants that, one does not start on a fresh node.
func TestNetworkPolicyIsSaid(t *testing.T) {
	n, runs := c.Nodes["c-1"], c.Nodes["a-1"]
	withFlags(t, runs, "--datapath", "envoy")
	before := ruleset(t, n)
	must(t, c.Apply("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny}, spec: {podSelector: {}}}"))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "networkpolicy/deny")
		must(t, err)
	})
	wantRefused(t, extraAgent(t, n, "--datapath=envoy", "--network-policies=refuse"), "the cluster has NetworkPolicies", "--network-policies")
	if after := ruleset(t, n); after != before {
		t.Errorf("the node had\n%s\nand is left with\n%s", before, after)
	}
	p, state := extraAgentIn(t, n, "--datapath=envoy")
	says := func(name string, log func() string, running func() bool) {
		wait.Eventually(t, func() error {
			if !running() || !strings.Contains(log(), "the cluster has NetworkPolicies") {
				return fmt.Errorf("%s does not serve and say so:\n%s", name, log())
			}
			return nil
		})
	}
	says("an agent that starts", p.Log, p.Running)
	says("an agent that runs", runs.Agent.Log, runs.Agent.Running)
	out, err := runs.Run("status")
	if err != nil || !strings.Contains(string(out), "NetworkPolicies") {
		t.Errorf("status: %v: %s", err, out)
	}
	p.Signal(syscall.SIGTERM)
	if out, err := n.Run("cleanup", "--state-dir", state); err != nil {
		t.Errorf("cleanup: %v: %s", err, out)
	}
}

// The real kube-proxy, alive and then dead with its rules left over.
func TestRealKubeProxyIsRefused(t *testing.T) {
	if missing := edge.MissingForKubeProxy(); missing != nil {
		t.Skipf("KUBE-PROXY IS LEFT OUT: %v", missing)
	}
	n := c.Nodes["c-2"]
	leave := kubeProxyRuns(t, n)
	wantRefused(t, extraAgent(t, n), "nft delete table ip kube-proxy")
	n.KubeProxy.Kill()
	wantRefused(t, extraAgent(t, n), "nft delete table ip kube-proxy", "nft delete table ip6 kube-proxy")
	leave()
}

// kubeProxyRuns starts the real kube-proxy and waits for its rules. leave ends
// it and takes them away, at the end of the test at the latest.
func kubeProxyRuns(t *testing.T, n *cluster.Node) (leave func()) {
	t.Helper()
	conn, err := n.NS.NFT()
	must(t, err)
	tables := func() (found []*nftables.Table) {
		all, err := conn.ListTables()
		must(t, err)
		for _, table := range all {
			if table.Name == "kube-proxy" {
				found = append(found, table)
			}
		}
		return found
	}
	must(t, n.StartProxy("kube-proxy"))
	leave = func() {
		n.KubeProxy.Kill()
		for _, table := range tables() {
			conn.DelTable(table)
		}
		must(t, conn.Flush())
	}
	t.Cleanup(leave)
	wait.Eventually(t, func() error {
		if !n.KubeProxy.Running() {
			t.Fatalf("kube-proxy has ended:\n%s", n.KubeProxy.Log())
		}
		if len(tables()) < 2 {
			return fmt.Errorf("kube-proxy has no rules yet:\n%s", n.KubeProxy.Log())
		}
		return nil
	})
	return leave
}

// An API server that dies and comes back: nothing fails meanwhile, and changes
// are followed again.
func TestAPIServerRestarts(t *testing.T) {
	leaks.None(t, c.Lab, leaks.Services) // a node that is given to another unit crosses the border
	a := deploy(t, "apidown")
	a.closedEverywhere(t)
	c.StopAPIServer()
	for _, n := range served {
		for range 20 {
			if _, err := ask(a.ns(t, n.Name), "tcp", a.at(0)); err != nil {
				t.Errorf("%s without an API server: %v", n.Name, err)
			}
		}
	}
	wait.Eventually(t, func() error {
		out, err := c.Nodes["a-1"].Run("status")
		if err == nil && !strings.Contains(string(out), "unavailable for") {
			err = fmt.Errorf("status does not say that the API server is away:\n%s", out)
		}
		return err
	})
	must(t, c.StartAPIServer(patient(t)))
	_, err := c.Kubectl("label", "--overwrite", "node", "a-1", "unit=b")
	must(t, err)
	t.Cleanup(func() {
		_, err := c.Kubectl("label", "--overwrite", "node", "a-1", "unit=a")
		must(t, err)
	})
	took := wait.Eventually(t, func() error {
		for range 6 {
			if got, err := ask(c.Nodes["a-1"].NS, "tcp", a.at(0)); err != nil || a.nodeOf(got.Name) == "a-2" {
				return fmt.Errorf("answered by %s: %w", got.Name, errWrong)
			}
		}
		return nil
	})
	t.Logf("a label was followed %s after the API server was back", took)
}
