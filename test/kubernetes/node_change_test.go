package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/topology"
)

// What changes on a node while its agent runs. Each waits for the agent to look
// again for most of its time, so they wait beside each other.
func TestNodesThatChange(t *testing.T) {
	beside(t, "c")
	a := deploy(t, "changes")
	t.Run("pod ranges", func(t *testing.T) {
		t.Parallel()
		podRangesFollowTheNode(t, a)
	})
	t.Run("kube-proxy", func(t *testing.T) {
		t.Parallel()
		kubeProxyComesLater(t, a)
	})
}

// guest runs an agent, which asks its Node for the ranges of its pods, and an
// Envoy on a node that has none, until the test ends.
func guest(t *testing.T, name string) *edge.Node {
	t.Helper()
	kubeconfig, err := c.AgentKubeconfig()
	must(t, err)
	n := c.Nodes[name]
	e := &edge.Node{Node: n.Node.Node, Dir: filepath.Join(n.Dir, "guest"), Flags: []string{"--kubeconfig", kubeconfig, "--pod-cidr", ""}}
	must(t, os.Mkdir(e.Dir, 0o755))
	t.Cleanup(func() {
		if out, err := e.Run("cleanup"); err != nil {
			t.Errorf("cleanup on %s: %v: %s", name, err, out)
		}
		must(t, os.RemoveAll(e.Dir))
	})
	must(t, e.StartAgent())
	endsWith(t, e.Agent)
	must(t, e.StartEnvoy())
	endsWith(t, e.Envoy)
	must(t, e.WaitReady(patient(t)))
	return e
}

// statusOfNode is what is read here of an agent's status.
type statusOfNode struct {
	PodCIDRs []netip.Prefix
	Findings []finding
	Problems []topology.Problem
}

type finding struct{ Kind, Text string }

func toldBy(e *edge.Node) (r statusOfNode, err error) {
	out, err := e.Run("status", "-o", "json")
	if err != nil {
		return r, fmt.Errorf("status: %w: %s", err, out)
	}
	return r, json.Unmarshal(out, &r)
}

// podRangesFollowTheNode: whose address an endpoint sees follows the podCIDRs
// of the client's Node, which may get them late, and others when it registers
// again.
func podRangesFollowTheNode(t *testing.T, a *app) {
	const name, far = "c-1", "c-2" // a pod that reaches itself is seen as its node
	n := c.Nodes[name]
	whole := []netip.Prefix{n.PodCIDR, n.PodCIDR6}
	pods, others := a.ips(t, name), []netip.Prefix{}
	for i, p := range whole {
		others = append(others, halfWithout(p, pods[i]))
	}
	t.Cleanup(func() {
		if t.Failed() { // wherever it has come to
			registerAgain(t, whole, func() {})
		}
		must(t, c.WaitNodes(patient(t)))
	})
	registerAgain(t, nil, func() {})
	e := guest(t, name)
	from := a.ns(t, name)
	seen := func(when string, ranges []netip.Prefix, clients ...netip.Addr) {
		t.Helper()
		took := wait.Eventually(t, func() error {
			r, err := toldBy(e)
			if err == nil && !slices.Equal(r.PodCIDRs, ranges) {
				err = fmt.Errorf("%s: status has pod CIDRs %v, want %v", when, r.PodCIDRs, ranges)
			}
			for i, client := range clients {
				err = errors.Join(err, seenAs(a, from, i, far, client))
			}
			return err
		})
		t.Logf("%s: pods are seen as %v after %s", when, clients, took)
	}
	seen("a Node without podCIDRs", nil, n.IP, n.IP6)

	patch, err := json.Marshal(map[string]any{"spec": ranged(whole)})
	must(t, err)
	_, err = c.Kube.CoreV1().Nodes().Patch(patient(t), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	seen("they are assigned", whole, pods...)

	gone := func() { // or the agent might take the next Node for this one
		wait.Eventually(t, func() error {
			r, err := toldBy(e)
			if err == nil && !slices.ContainsFunc(r.Findings, func(f finding) bool { return f.Kind == "own-node" }) {
				err = fmt.Errorf("status does not say that there is no Node: %v", r.Findings)
			}
			return err
		})
	}
	registerAgain(t, others, gone)
	seen("registered again with others", others, n.IP, n.IP6)
	registerAgain(t, whole, gone)
	seen("and with the first ones", whole, pods...)
}

// seenAs returns nil if an endpoint on a node sees a client as it should.
func seenAs(a *app, from *netlab.NS, family int, on string, as netip.Addr) error {
	for range 20 {
		got, err := ask(from, "tcp", a.at(family))
		switch {
		case err != nil:
			return err
		case a.nodeOf(got.Name) != on:
		case got.Client != as.String():
			return fmt.Errorf("%s sees %s, want %s", got.Name, got.Client, as)
		default:
			return nil
		}
	}
	return fmt.Errorf("nobody on %s has answered", on)
}

// halfWithout is the half of a range in which an address is not.
func halfWithout(p netip.Prefix, addr netip.Addr) netip.Prefix {
	half := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	if half.Contains(addr) {
		upper := p.Addr().AsSlice()
		upper[p.Bits()/8] |= 0x80
		ip, _ := netip.AddrFromSlice(upper)
		half = netip.PrefixFrom(ip, p.Bits()+1)
	}
	return half
}

// ranged is a Node's spec with pod CIDRs.
func ranged(list []netip.Prefix) (spec corev1.NodeSpec) {
	for _, p := range list {
		spec.PodCIDRs = append(spec.PodCIDRs, p.String())
		spec.PodCIDR = spec.PodCIDRs[0]
	}
	return spec
}

// registerAgain deletes the Node c-1 and, once that was seen, makes it with the same
// labels and with these ranges of pods.
func registerAgain(t *testing.T, ranges []netip.Prefix, seen func()) {
	t.Helper()
	const name = "c-1"
	nodes := c.Kube.CoreV1().Nodes()
	old, err := nodes.Get(patient(t), name, metav1.GetOptions{})
	must(t, err)
	must(t, nodes.Delete(patient(t), name, metav1.DeleteOptions{}))
	seen()
	_, err = nodes.Create(patient(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: old.Labels}, Spec: ranged(ranges)}, metav1.CreateOptions{})
	must(t, err)
}

// soonFound is when a running agent has found what came to its node: it looks
// every 60 to 75 s, and what it then has to do takes a busy machine a while.
const soonFound = 75*time.Second + time.Minute

// kubeProxyComesLater: the real kube-proxy, started beside a running agent, is
// told wherever one would look. What is dialled may fail meanwhile
// (docs/limits.md); when it is gone and its rules are, all is served, and what was
// told is gone as well.
func kubeProxyComesLater(t *testing.T, a *app) {
	if missing := edge.MissingForKubeProxy(); missing != nil {
		t.Skipf("KUBE-PROXY IS LEFT OUT: %v", missing)
	}
	n := c.Nodes["c-2"]
	e := guest(t, n.Name)
	from := []*netlab.NS{n.NS, a.ns(t, n.Name)}
	for _, ns := range from {
		wait.Eventually(t, func() error { return second(ask(ns, "tcp", a.at(0))) })
	}
	const says = "nft delete table ip kube-proxy"
	found := func(want bool) error {
		r, err := toldBy(e)
		if err != nil {
			return err
		}
		if has := slices.ContainsFunc(r.Findings, func(f finding) bool { return f.Kind == "kube-proxy" && strings.Contains(f.Text, says) }); has != want {
			return fmt.Errorf("status has a finding of kube-proxy: %v, want %v: %v", has, want, r.Findings)
		}
		text, err := e.Metrics()
		if has := strings.Contains(text, `gridmesh_node_findings{kind="kube-proxy"}`); err == nil && has != want {
			err = fmt.Errorf("gridmesh_node_findings counts kube-proxy: %v, want %v", has, want)
		}
		return err
	}
	must(t, found(false))

	leave := kubeProxyRuns(t, n)
	took := wait.Within(t, soonFound, func() error { return found(true) })
	t.Logf("kube-proxy was found after %s", took)
	wait.Eventually(t, func() error {
		if events := nodeEvents(t, n.Name, "GridmeshConflict"); !slices.ContainsFunc(events, func(e corev1.Event) bool { return strings.Contains(e.Message, says) }) {
			return fmt.Errorf("no Event of the Node names it: %v", events)
		}
		return nil
	})
	if log := e.Agent.Log(); strings.Count(log, says) != 1 {
		t.Errorf("the agent's log says %d times %q", strings.Count(log, says), says)
	}
	leave()
	// What is guarded has changed: the agent looks at once.
	must(t, c.Apply("{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: look-again}, spec: {cidrs: [10.97.0.0/24]}}"))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "servicecidr/look-again")
		must(t, err)
	})
	took = wait.Within(t, soonFound, func() error { return found(false) })
	t.Logf("it was found no longer %s after its rules were gone", took)
	for _, ns := range from {
		for _, network := range []string{"tcp", "udp"} {
			wait.Eventually(t, func() error { return second(ask(ns, network, a.at(0))) })
		}
	}
}
