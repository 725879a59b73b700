package real

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// programs of deploy/ on each node.
var programs = []string{"gridmesh-agent", "envoy", "gridmesh-dns"}

// With the cloud cut off the kubelet starts agent, Envoy and DNS again, from
// what is on their node's disk. A machine that is switched off leaves nothing,
// and one that boots without a cloud is dark until that is back: its kubelet
// starts nothing before (docs/limits.md).
func TestRealNodeWithoutCloud(t *testing.T) {
	needReal(t)
	deployed(t)
	a := deploy(t, "inside", 8080, false)
	served(t, a, a)
	n, unit := c.Nodes["a-1"], c.Lab.Unit("a")
	resolves(t, a, n.Name)
	ips := a.ips()
	wait.Eventually(t, func() error {
		return errors.Join(n.Kept("lib/gridmesh/state", "default/inside", ips...), n.Kept("lib/gridmesh/dns.v1", "default/inside", ips...))
	})
	t.Cleanup(func() { must(t, unit.HealUplink()) })
	must(t, unit.CutUplink())

	t.Run("its programs are killed", func(t *testing.T) {
		leaks.None(t, c.Lab, leaks.Any)
		killed := time.Now()
		for _, program := range programs {
			startedAgain(t, n, program)
		}
		servedOn(t, n.Name, a, a)
		resolves(t, a, n.Name)
		t.Logf("Services and names are answered %s later", time.Since(killed).Round(10*time.Millisecond))
	})
	t.Run("it boots", func(t *testing.T) {
		n.Kubelet.Kill()
		leaks.NoNode(t, n)
		forgets(t, n)
		must(t, n.StartKubelet())
		dark(t, n, a)
		must(t, unit.HealUplink())
		healed := time.Now()
		must(t, c.WaitNodes(patient(t)))
		wait.Eventually(t, func() error {
			// The API server believes in the old processes until the kubelet has looked.
			ns, err := a.open(n.Name)
			if err != nil {
				return err
			}
			defer ns.Leave()
			got, err := edge.Ask(ns, "tcp", a.to, answered)
			if err == nil && a.unitOf(got.Name) != n.Unit.Name {
				err = errors.New(got.Name + " is of another unit")
			}
			return err
		})
		// Until then it was the kernel, which does not know whose process is gone.
		wait.Eventually(t, n.ServesByEnvoy)
		servedOn(t, n.Name, a, a)
		resolves(t, a, n.Name)
		t.Logf("served again %s after the heal", time.Since(healed).Round(10*time.Millisecond))
	})
}

// dark waits until a node's kubelet has started, and holds that it starts no
// agent, so that nobody answers the host, nor is anything guarded.
func dark(t *testing.T, n *cluster.Node, a *app) {
	t.Helper()
	took := wait.Eventually(t, func() error {
		if !strings.Contains(n.Kubelet.Log(), "Started kubelet") {
			return errors.New("the kubelet has not started")
		}
		return nil
	})
	t.Logf("its kubelet had started %s after the boot", took)
	before, err := n.Unit.Leaks()
	must(t, err)
	wait.Holds(t, darkFor, func() error {
		if pids, err := n.PodProcesses("", "gridmesh-agent"); err != nil || len(pids) > 0 {
			return fmt.Errorf("agents run without a cloud: %v, %w", pids, err)
		}
		if got, err := edge.Ask(n.NS, "tcp", a.to, time.Second); err == nil {
			return fmt.Errorf("answered by %s without a cloud", got.Name)
		}
		return nil
	})
	after, err := n.Unit.Leaks()
	must(t, err)
	if after.Service == before.Service {
		t.Error("what was dialled did not take the default route; docs/limits.md says that it does")
	}
}

// darkFor is how long a booted machine is looked at.
const darkFor = 5 * time.Second

// startedAgain kills a program of deploy/ and waits until the kubelet, which
// nobody outside can ask, has started another.
func startedAgain(t *testing.T, n *cluster.Node, program string) {
	t.Helper()
	before, err := n.PodProcesses("", program)
	must(t, err)
	if len(before) == 0 {
		t.Fatalf("no %s runs on %s", program, n.Name)
	}
	for _, pid := range before {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	took := wait.Eventually(t, func() error {
		now, err := n.PodProcesses("", program)
		if err == nil && (len(now) == 0 || slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) })) {
			err = fmt.Errorf("%s runs as %v on %s, and was killed as %v", program, now, n.Name, before)
		}
		return err
	})
	t.Logf("%s was started again after %s", program, took)
}

// forgets takes away what a kernel forgets at a boot: a machine's network is
// the lab's, and outlives it here.
func forgets(t *testing.T, n *cluster.Node) {
	t.Helper()
	conn, err := n.NS.NFT()
	must(t, err)
	conn.FlushRuleset()
	must(t, conn.Flush())
}

// Kubelets stop to watch a ConfigMap that no container was started with for five minutes, unless it is mounted, and
// without a cloud they cannot ask anew. What deploy/ needs is mounted: an agent that ran for long comes back.
func TestAnAgentThatRanForLongComesBack(t *testing.T) {
	needReal(t)
	deployed(t)
	a := deploy(t, "inside", 8080, false)
	served(t, a, a)
	n, unit := c.Nodes["a-1"], c.Lab.Unit("a")
	must(t, c.Apply(strings.ReplaceAll(forgettable, "NODE", n.Name)))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "pod/forgettable", "configmap/forgettable")
		must(t, err)
	})
	pods, err := c.WaitPods(patient(t), "default", "app=forgettable", 1)
	must(t, err)
	const forgotten = 5*time.Minute + time.Minute // kubelet looks once a minute
	time.Sleep(forgotten + 15*time.Second)
	t.Cleanup(func() { must(t, unit.HealUplink()) })
	must(t, unit.CutUplink())
	pids, err := n.PodProcesses(string(pods[0].UID), "lab-worker")
	must(t, err)
	if len(pids) != 1 {
		t.Fatalf("the pod of the control runs as %v", pids)
	}
	must(t, syscall.Kill(pids[0], syscall.SIGKILL))
	killed := time.Now()
	for _, program := range programs {
		startedAgain(t, n, program)
	}
	t.Logf("agent, Envoy and DNS run again after %s", time.Since(killed).Round(10*time.Millisecond))
	servedOn(t, n.Name, a, a)
	resolves(t, a, n.Name)
	if now, err := n.PodProcesses(string(pods[0].UID), "lab-worker"); err != nil || len(now) > 0 {
		t.Errorf("the control, whose ConfigMap is not mounted, runs again as %v, %v: nothing was forgotten", now, err)
	}
}

// forgettable is a pod whose ConfigMap is its environment's alone.
const forgettable = `
apiVersion: v1
kind: ConfigMap
metadata: {name: forgettable}
data: {key: value}
---
apiVersion: v1
kind: Pod
metadata: {name: forgettable, labels: {app: forgettable}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: gridmesh.test/app:1
    imagePullPolicy: Never
    args: ["8080"]
    env: [{name: KEY, valueFrom: {configMapKeyRef: {name: forgettable, key: key}}}]
`
