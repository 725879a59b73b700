package kubernetes

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// The manifests of deploy/, applied to nodes without a proxy, serve them; and
// an update of the agent in a connect loop costs no connection.
func TestDeployedByManifests(t *testing.T) {
	a := deploy(t, "deployed")
	manifests, err := c.Kubectl("kustomize", edge.Root()+"/deploy")
	must(t, err)
	only := strings.ReplaceAll(manifests, "        kubernetes.io/os: linux\n", "        kubernetes.io/os: linux\n        unit: c\n")
	must(t, c.Apply(only))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "-n", "gridmesh", "daemonset/gridmesh-agent", "daemonset/gridmesh-envoy", "daemonset/gridmesh-dns", "deployment/gridmesh-controller")
		must(t, err)
		for _, name := range []string{"controller", "agent"} {
			_, err = c.WaitPods(patient(t), "gridmesh", "app.kubernetes.io/name=gridmesh-"+name, 0)
			must(t, err)
		}
		for _, name := range []string{"c-1", "c-2"} { // an agent that stops leaves its rules in force
			if out, err := c.Nodes[name].Run("cleanup"); err != nil {
				t.Errorf("cleanup on %s: %v: %s", name, err, out)
			}
		}
	})
	ctx := patient(t)
	agents, err := c.WaitPods(ctx, "gridmesh", "app.kubernetes.io/name=gridmesh-agent", 2)
	must(t, err)
	honoured(t, agents)
	// The controller of these manifests, on the same nodes, dials the API
	// server's ClusterIP, and may do so before a node's first agent runs.
	leaks.None(t, c.Lab, leaks.Any)
	_, err = c.WaitPods(ctx, "gridmesh", "app.kubernetes.io/name=gridmesh-envoy", 2)
	must(t, err)
	controllers, err := c.WaitPods(patient(t), "gridmesh", "app.kubernetes.io/name=gridmesh-controller", 2)
	must(t, err)
	honoured(t, controllers)
	inUnits(t, map[string]string{"a-1": "north"})
	applied(t, deploymentGrid("deployed-grid", "", "1"), "deploymentgrid/deployed-grid")
	t.Logf("a grid was ready %s after it was applied", allReady(t, "deploymentgrids", "deployed-grid", 1))
	names, err := c.WaitPods(patient(t), "gridmesh", "app.kubernetes.io/name=gridmesh-dns", 2)
	must(t, err)
	honoured(t, names)
	nodes := []string{"c-1", "c-2"}
	for _, name := range nodes {
		deployedDNS(t, a, name)
	}
	for _, name := range nodes {
		n := c.Nodes[name]
		took := wait.Eventually(t, func() error {
			var errs []error
			for _, network := range []string{"tcp", "udp"} {
				errs = append(errs, second(ask(n.NS, "tcp", a.at(0))), second(ask(a.ns(t, name), network, a.at(1))))
			}
			return errors.Join(errs...)
		})
		t.Logf("%s serves %s after its pods were ready", name, took)
		for range 8 {
			for _, network := range []string{"tcp", "udp"} {
				got, err := ask(a.ns(t, name), network, a.at(1))
				if err != nil || !strings.HasPrefix(a.nodeOf(got.Name), "c-") {
					t.Errorf("%s %s: answered by %s on %s: %v", name, network, got.Name, a.nodeOf(got.Name), err)
				}
			}
		}
	}

	for _, name := range nodes {
		asTold(t, name)
		alertsHaveData(t, name)
	}
	dials := load.Start(t, []*netlab.NS{c.Nodes["c-1"].NS, c.Nodes["c-2"].NS}, a.at(0))
	_, err = c.Kubectl("rollout", "restart", "-n", "gridmesh", "daemonset/gridmesh-agent")
	must(t, err)
	out, err := c.Kubectl("rollout", "status", "-n", "gridmesh", "daemonset/gridmesh-agent", "--timeout=10m")
	if err != nil {
		t.Errorf("rollout: %v: %s", err, out)
	}
	load.NoneFailed(t, "agent updated", dials.Stop())
}

// honoured: all that the pods ask for is what they got.
func honoured(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		for _, cond := range p.Status.Conditions {
			if cond.Type == "Honoured" && cond.Status != "True" {
				t.Errorf("%s: %s", p.Name, cond.Message)
			}
		}
	}
}
