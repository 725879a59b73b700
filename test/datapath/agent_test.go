package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// ownTables lists gridmesh's nftables tables on a node.
func ownTables(t *testing.T, n *netlab.NS) (found []string) {
	t.Helper()
	conn, err := n.NFT()
	must(t, err)
	tables, err := conn.ListTables()
	must(t, err)
	for _, table := range tables {
		if table.Name == "gridmesh" {
			found = append(found, fmt.Sprint(table.Family))
		}
	}
	return found
}

func TestStopLeavesEverythingInForce(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "stop", `["unit"]`)
	f.served(t)
	e := w.nodes[2]
	dials := load.Start(t, []*netlab.NS{e.NS, f.pods[e.Name].NS}, f.at(0), f.at(1))
	e.Agent.Signal(syscall.SIGTERM)
	if code := e.Agent.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, e.Agent.Log())
	}
	wait.Holds(t, 500*time.Millisecond, func() error {
		if len(ownTables(t, e.NS)) == 0 {
			return errors.New("the table is gone")
		}
		return nil
	})
	dials.More(t, 10)
	must(t, e.StartAgent())
	ready(t, e)
	connected(t, e)
	dials.More(t, 10)
	load.NoneFailed(t, "agent stopped and started", dials.Stop())
}

func TestCleanupLeavesNoTrace(t *testing.T) {
	f := deploy(t, "cleanup", `["unit"]`)
	f.served(t)
	e := w.nodes[3] // bridged
	const key = "net/bridge/bridge-nf-call-iptables"
	if now, err := e.NS.ReadSysctl(key); err != nil || now != "0" {
		t.Fatalf("%s is %q before, %v", key, now, err)
	}
	if out, err := e.Run("cleanup"); err == nil || !strings.Contains(string(out), "is locked") {
		t.Errorf("cleanup beside a running agent: %v, %s", err, out)
	}
	e.Agent.Signal(syscall.SIGTERM)
	out, err := e.Run("cleanup")
	if err != nil {
		t.Fatalf("cleanup: %v: %s", err, out)
	}
	if left := ownTables(t, e.NS); len(left) > 0 {
		t.Errorf("tables left: %v", left)
	}
	if now, err := e.NS.ReadSysctl(key); err != nil || now != "1" {
		t.Errorf("%s is %q after cleanup, %v", key, now, err)
	}
	if now, err := e.NS.ReadSysctl("net/ipv4/tcp_early_demux"); err != nil || now != "1" {
		t.Errorf("tcp_early_demux is %q after cleanup, %v", now, err)
	}
	rules, err := e.NS.Rules()
	must(t, err)
	if strings.Contains(rules, "15001") {
		t.Errorf("rules left: %s", rules)
	}
	e.Envoy.Kill()
	if out, err := e.Run("cleanup", "--files"); err != nil {
		t.Errorf("a second cleanup: %v: %s", err, out)
	}
	if left, err := os.ReadDir(filepath.Join(e.Dir, "state")); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v; what the agent writes there has to be among cleanup.Kept", left, err)
	}
	must(t, errors.Join(e.StartAgent(), e.StartEnvoy()))
	ready(t, e)
	wait.Eventually(t, func() error {
		_, err := edge.Ask(e.NS, "tcp", f.at(0), time.Second)
		return err
	})
}

// refusedStart starts another agent on a node and wants it to refuse.
func refusedStart(t *testing.T, e *edge.Node, code int, flags []string, parts ...string) {
	t.Helper()
	p, err := edge.Start(e.NS, "refused", append([]string{edge.Binary("gridmesh-agent"), "--node-name", e.Name, "--manifests", w.state.dir}, flags...)...)
	must(t, err)
	got := p.ExitCode()
	if got != code {
		t.Errorf("exit code %d, want %d:\n%s", got, code, p.Log())
	}
	for _, part := range parts {
		if !strings.Contains(p.Log(), part) {
			t.Errorf("does not say %q:\n%s", part, p.Log())
		}
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	e := w.nodes[0]
	refusedStart(t, e, 3, []string{"--state-dir", e.Dir + "/state"}, "another gridmesh-agent, or a cleanup, runs", "stop it first")
}

// What is said of each mistake is tested beside the flags.
func TestWrongFlagsAreRefused(t *testing.T) {
	e := w.nodes[0]
	refusedStart(t, e, 2, []string{"--pod-cidr", "10.244.1.5/24"}, "did you mean 10.244.1.0/24")
	refusedStart(t, e, 2, []string{"--no-such-flag"}, "unknown flag")
}

// What cannot be read is said, and looked for again; it is the agent that runs here that ends this one.
func TestUnreadableInputsAreNamed(t *testing.T) {
	e := w.nodes[0]
	dir := t.TempDir()
	refusedStart(t, e, 3, []string{"--manifests", "", "--kubeconfig", dir + "/absent", "--state-dir", dir}, "read kubeconfig "+dir+"/absent", "another gridmesh-agent")
}

func TestRulesOfKubeProxyAreRefused(t *testing.T) {
	e := w.nodes[0]
	for _, tc := range []struct {
		family       nftables.TableFamily
		table, chain string
		cure         string
	}{
		{nftables.TableFamilyIPv4, "kube-proxy", "services", "nft delete table ip kube-proxy"},
		{nftables.TableFamilyIPv6, "kube-proxy", "services", "nft delete table ip6 kube-proxy"},
		{nftables.TableFamilyIPv4, "nat", "KUBE-SERVICES", "kube-proxy --cleanup"},
	} {
		conn, err := e.NS.NFT()
		must(t, err)
		table := conn.AddTable(&nftables.Table{Family: tc.family, Name: tc.table})
		conn.AddChain(&nftables.Chain{Table: table, Name: tc.chain})
		must(t, conn.Flush())
		refusedStart(t, e, 3, []string{"--state-dir", t.TempDir()}, tc.cure)
		conn.DelTable(table)
		must(t, conn.Flush())
	}
	must(t, e.NS.AddLink("kube-ipvs0"))
	refusedStart(t, e, 3, []string{"--state-dir", t.TempDir()}, "kube-ipvs0", "kube-proxy --cleanup")
	must(t, e.NS.DelLink("kube-ipvs0"))
}

// repairs is five times how often an agent looks after its rules.
const repairs = 25 * time.Second

func TestRulesRemovedByOthersComeBack(t *testing.T) {
	f := deploy(t, "repair", `["unit"]`)
	f.served(t)
	e := w.nodes[0]
	conn, err := e.NS.NFT()
	must(t, err)
	conn.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "gridmesh"})
	must(t, conn.Flush())
	took := wait.Within(t, repairs, func() error {
		_, err := edge.Ask(f.pods[e.Name].NS, "tcp", f.at(0), 500*time.Millisecond)
		return err
	})
	t.Logf("served again %s after somebody deleted the table", took)
}

// The limit that docs/limits.md names: a policy that the client's node has in
// FORWARD holds for direct traffic and not through a ClusterIP, wherever the
// endpoint is.
func TestForwardPolicyIsBypassed(t *testing.T) {
	f := deploy(t, "bypass", `["unit"]`)
	e := w.nodes[0]
	other, err := e.AddPod("bypass-client")
	must(t, err)
	t.Cleanup(func() { must(t, other.Remove()) })
	for _, node := range []string{e.Name, w.nodes[1].Name} {
		t.Run(node, func(t *testing.T) {
			end := f.pods[node].IP
			f.ends = []backend{{end, node}}
			w.state.service(f.service)
			must(t, w.state.write())
			wait.Eventually(t, func() error {
				a, err := edge.Ask(other.NS, "tcp", f.at(0), time.Second)
				if err == nil && a.Name != "bypass-"+node {
					err = errors.New(a.Name)
				}
				return err
			})
			enforce(t, e.NS, "policy", matchTo(end))
			if a, err := edge.Ask(other.NS, "tcp", netip.AddrPortFrom(end, 8080), silence); err == nil {
				t.Fatalf("the policy does not hold for direct traffic: %v", a)
			}
			if _, err := edge.Ask(other.NS, "tcp", f.at(0), answers); err != nil {
				t.Errorf("the policy holds through the ClusterIP: %v; then docs/limits.md is out of date", err)
			}
		})
	}
}

func TestInputPolicyDropsTheCapture(t *testing.T) {
	f := deploy(t, "input", `["unit"]`)
	f.served(t)
	e := w.nodes[2]
	conn, err := e.NS.NFT()
	must(t, err)
	deny := nftables.ChainPolicyDrop
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "firewall"})
	c := conn.AddChain(&nftables.Chain{Table: table, Name: "input", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &deny})
	must(t, conn.Flush())
	t.Cleanup(func() { conn.DelTable(table); must(t, conn.Flush()) })
	from := f.pods[e.Name].NS
	if _, err := edge.Ask(from, "tcp", f.at(0), time.Second); err == nil {
		t.Error("served although INPUT drops everything")
	}
	e.Agent.Signal(syscall.SIGTERM)
	must(t, e.StartAgent())
	wait.Eventually(t, func() error {
		if !strings.Contains(e.Agent.Log(), "drops by default in INPUT") {
			return fmt.Errorf("the agent does not say so:\n%s", e.Agent.Log())
		}
		return nil
	})
	// The cure of docs/limits.md, and what any firewall has: answers to ours.
	for _, match := range [][]expr.Any{
		{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: []byte{3, 0, 0, 0}, Xor: make([]byte, 4)}, &expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: []byte{1, 0, 0, 0}}},
		{&expr.Ct{Key: expr.CtKeySTATE, Register: 1}, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: []byte{2, 0, 0, 0}, Xor: make([]byte, 4)}, &expr.Cmp{Register: 1, Op: expr.CmpOpNeq, Data: make([]byte, 4)}},
	} {
		conn.AddRule(&nftables.Rule{Table: table, Chain: c, Exprs: append(match, &expr.Verdict{Kind: expr.VerdictAccept})})
	}
	must(t, conn.Flush())
	wait.Eventually(t, func() error {
		_, err := edge.Ask(from, "tcp", f.at(0), time.Second)
		return err
	})
}
