package real

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// deployed applies deploy/ once for all tests.
func deployed(t *testing.T) {
	t.Helper()
	start := time.Now()
	if err := c.Deploy(patient(t)); err != nil {
		t.Fatal(err)
	}
	t.Logf("deploy/ was ready after %s", time.Since(start).Round(10*time.Millisecond))
}

// deploy/ as it is serves real nodes: with an image of Envoy whose entrypoint
// changes the user, with capabilities that a runtime really drops, with probes
// that a kubelet really makes.
func TestDeployedOnRealNodes(t *testing.T) {
	needReal(t)
	deployed(t)
	leaks.None(t, c.Lab, leaks.Any)
	a := deploy(t, "inside", 8080, false)
	served(t, a, a)
	for node, n := range c.Nodes {
		resolves(t, a, node)
		heldToItsLimit(t, n)
	}

	for what, s := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "hung": syscall.SIGSTOP} {
		t.Run("Envoy is "+what, func(t *testing.T) {
			restarted(t, "gridmesh-envoy", "envoy", s)
			served(t, a, a)
		})
		t.Run("DNS is "+what, func(t *testing.T) {
			restarted(t, "gridmesh-dns", "gridmesh-dns", s)
			resolves(t, a, "b-1")
		})
	}
	t.Run("the agent is hung", func(t *testing.T) {
		restarted(t, "gridmesh-agent", "gridmesh-agent", syscall.SIGSTOP)
		served(t, a, a)
	})
	t.Run("Envoy is killed where the sockets' directory was emptied", func(t *testing.T) {
		sockets := filepath.Dir(c.Nodes["b-1"].AgentSocket())
		list, err := os.ReadDir(sockets)
		must(t, err)
		for _, e := range list {
			must(t, os.RemoveAll(filepath.Join(sockets, e.Name())))
		}
		restarted(t, "gridmesh-envoy", "envoy", syscall.SIGKILL)
		served(t, a, a)
		resolves(t, a, "b-1")
	})
}

// resolves waits until a node's DNS answers pods with the address of an app.
func resolves(t *testing.T, a *app, node string) {
	t.Helper()
	ns := a.ns(t, node)
	wait.Eventually(t, func() error {
		got, err := edge.Resolve(ns, edge.NodeDNS[0]+":53", "inside.default.svc.cluster.local.", dns.TypeA)
		if err == nil && !slices.Equal(got, []string{a.to.Addr().String()}) {
			err = fmt.Errorf("resolves to %q, not to %s", got, a.to.Addr())
		}
		return err
	})
}

// restarted sends a signal to a program of deploy/ on b-1 and waits until
// the kubelet has started it again.
func restarted(t *testing.T, workload, program string, s syscall.Signal) {
	t.Helper()
	const node = "b-1"
	before := podOf(t, node, workload)
	pids, err := c.Nodes[node].PodProcesses(string(before.UID), program)
	must(t, err)
	if len(pids) != 1 {
		t.Fatalf("processes of %s on %s: %v", program, node, pids)
	}
	must(t, syscall.Kill(pids[0], s))
	took := wait.Eventually(t, func() error {
		now := podOf(t, node, workload)
		status := now.Status.ContainerStatuses[0]
		if now.UID != before.UID || status.RestartCount <= before.Status.ContainerStatuses[0].RestartCount || !status.Ready {
			return fmt.Errorf("%s of %s: %d restarts, ready %v", program, node, status.RestartCount, status.Ready)
		}
		return nil
	})
	t.Logf("%s was ready again %s after %s", program, took, s)
}

func podOf(t *testing.T, node, workload string) corev1.Pod {
	t.Helper()
	pods, err := c.Pods(patient(t), "gridmesh", "app.kubernetes.io/name="+workload)
	must(t, err)
	for _, p := range pods {
		if p.Spec.NodeName == node && len(p.Status.ContainerStatuses) > 0 {
			return p
		}
	}
	t.Fatalf("no pod of %s on %s", workload, node)
	return corev1.Pod{}
}
