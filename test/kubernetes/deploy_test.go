package kubernetes

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/test/cluster"
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
	must(t, c.Apply(built(t, edge.Root()+"/deploy")))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "-n", "gridmesh", "--ignore-not-found", "daemonset/gridmesh-agent", "daemonset/gridmesh-envoy", "daemonset/gridmesh-dns",
			"deployment/gridmesh-controller", "service/gridmesh-controller")
		must(t, err)
		for _, name := range []string{"controller", "agent"} {
			_, err = c.WaitPods(patient(t), "gridmesh", "app.kubernetes.io/name=gridmesh-"+name, 0)
			must(t, err)
		}
		for _, name := range []string{"c-1", "c-2"} { // an agent that stops leaves its rules in force
			n := c.Nodes[name]
			if out, err := n.Run("cleanup", "--state-dir", filepath.Join(n.Dir, "host/var/lib/gridmesh")); err != nil {
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
	}
	dials := load.Start(t, []*netlab.NS{c.Nodes["c-1"].NS, c.Nodes["c-2"].NS}, a.at(0))
	must(t, c.Apply(built(t, watched(t)))) // another flag of the agent
	for _, name := range []string{"agent", "dns"} {
		if out, err := c.Kubectl("rollout", "status", "-n", "gridmesh", "daemonset/gridmesh-"+name, "--timeout=10m"); err != nil {
			t.Errorf("rollout: %v: %s", err, out)
		}
	}
	load.NoneFailed(t, "agent updated", dials.Stop())
	mayFindTargets(t)
	for _, name := range nodes {
		scraped(t, c.Nodes[name])
	}
}

// built is a kustomization for the nodes of unit c, without what the Prometheus
// operator alone knows.
func built(t *testing.T, dir string) string {
	t.Helper()
	manifests, err := c.Kubectl("kustomize", dir)
	must(t, err)
	docs := slices.DeleteFunc(strings.Split(manifests, "\n---\n"), func(doc string) bool { return strings.HasPrefix(doc, "apiVersion: monitoring.coreos.com/") })
	return strings.ReplaceAll(strings.Join(docs, "\n---\n"), "        kubernetes.io/os: linux\n", "        kubernetes.io/os: linux\n        unit: c\n")
}

// watched is a kustomization of a user's own, with deploy/monitoring.
func watched(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.CopyFS(dir+"/deploy", os.DirFS(edge.Root()+"/deploy")))
	must(t, os.Mkdir(dir+"/mine", 0o755))
	must(t, os.WriteFile(dir+"/mine/kustomization.yaml", []byte("resources: [../deploy]\ncomponents: [../deploy/monitoring]\n"), 0o600))
	return dir + "/mine"
}

// mayFindTargets: the account of a stock kube-prometheus, which may list nothing
// outside of three namespaces, finds what it is to scrape, and no more.
func mayFindTargets(t *testing.T) {
	t.Helper()
	const account = "--as=system:serviceaccount:monitoring:prometheus-k8s"
	for _, what := range []string{"pods", "services", "endpoints", "endpointslices.discovery.k8s.io"} {
		if out, err := c.Kubectl("auth", "can-i", "watch", what, "-n", "gridmesh", account); err != nil {
			t.Errorf("Prometheus may not watch %s: %s", what, out)
		}
		if out, err := c.Kubectl("auth", "can-i", "watch", what, "-n", "default", account); err == nil {
			t.Errorf("Prometheus may watch %s of others: %s", what, out)
		}
	}
}

// scraped: Prometheus reaches what alerts ask for at the node's address.
func scraped(t *testing.T, n *cluster.Node) {
	t.Helper()
	client := http.Client{Timeout: answers["tcp"], Transport: &http.Transport{DisableKeepAlives: true, DialContext: c.Lab.Cloud.Dial}}
	wait.Eventually(t, func() error {
		text := ""
		for _, port := range []uint16{10249, 9253} {
			resp, err := client.Get("http://" + netip.AddrPortFrom(n.IP, port).String() + "/metrics")
			if err != nil {
				return err
			}
			page, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				return err
			}
			text += string(page)
		}
		return alertsHaveData(text)
	})
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
