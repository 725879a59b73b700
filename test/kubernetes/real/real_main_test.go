package real

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/outage"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// c is the cluster that the tests of this package share: unit a with two real
// nodes, unit b with one, and with a stand-in while a test has that join. missing says why there is none. cutFor is how long a
// test of a heal cuts an uplink.
var (
	c       *cluster.Cluster
	missing error
	cutFor  time.Duration
)

const standIn = "b-2"

func TestMain(m *testing.M) {
	sandbox.Run(func() int {
		if missing = realnode.Missing(); missing != nil {
			return m.Run()
		}
		kube.LogTo(slog.New(slog.DiscardHandler)) // before any client runs: it is global
		ctx, cancel := context.WithTimeout(context.Background(), 2*wait.Patience)
		defer cancel()
		start := time.Now()
		cut, grace, err := outage.Length()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		cutFor = cut
		c, err = cluster.Up(ctx, cluster.Config{
			Lab: netlab.Config{Units: []netlab.UnitConfig{
				{Name: "a", Nodes: []netlab.PodNetwork{netlab.Bridged, netlab.Bridged}}, {Name: "b", Nodes: []netlab.PodNetwork{netlab.Bridged, netlab.Routed}},
			}},
			Real:       []string{"a-1", "a-2", "b-1"},
			Later:      []string{standIn},
			RealImages: []realnode.Image{lookupImage()},
			NodeGrace:  grace,
			Say:        func(format string, args ...any) { fmt.Printf("cluster: "+format+"\n", args...) },
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "cluster:", err)
			return 1
		}
		fmt.Printf("cluster: up in %s\n", time.Since(start).Round(10*time.Millisecond))
		return m.Run()
	})
}

// needReal skips where this machine has no real nodes; "make test" says so, too.
func needReal(t *testing.T) {
	t.Helper()
	if missing != nil {
		t.Skipf("REAL NODES ARE LEFT OUT: %v", missing)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		out, _ := c.Kubectl("get", "pods", "-A", "-o", "wide")
		events, _ := c.Kubectl("get", "events", "-A", "--sort-by=.lastTimestamp")
		t.Logf("pods:\n%sevents:\n%s", out, events)
		for name, n := range c.Nodes {
			text := n.Kubelet.Log()
			t.Logf("end of the log of machine %s:\n%s", name, text[max(0, len(text)-8<<10):])
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patient is a context for what promises no time.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	t.Cleanup(cancel)
	return ctx
}

// answered is when a request has failed: a slow machine is no failure.
const answered = 20 * time.Second

// app is a DaemonSet with a pod on every node, and a closed Service.
type app struct {
	to   netip.AddrPort
	pods map[string]*corev1.Pod // by node
}

// The server's port is its own where it is one of the node's.
const appManifest = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: NAME, labels: {app: NAME}}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 1
      hostNetwork: HOST
      tolerations: [{operator: Exists}]
      containers:
      - name: app
        image: gridmesh.test/app:1
        imagePullPolicy: Never
        args: ["PORT"]
        ports: [{name: main, containerPort: PORT}]
        readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, annotations: {topologyKeys: '["unit"]'}}
spec:
  selector: {app: NAME}
  ports: [{port: 80, targetPort: main}]
`

func deploy(t *testing.T, name string, port int, hostNetwork bool) *app {
	t.Helper()
	must(t, c.Apply(strings.NewReplacer("NAME", name, "PORT", fmt.Sprint(port), "HOST", fmt.Sprint(hostNetwork)).Replace(appManifest)))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "daemonset/"+name, "service/"+name)
		must(t, err)
	})
	ctx := patient(t)
	pods, err := c.WaitPods(ctx, "default", "app="+name, len(c.Nodes))
	must(t, err)
	a := &app{pods: map[string]*corev1.Pod{}}
	for i := range pods {
		a.pods[pods[i].Spec.NodeName] = &pods[i]
	}
	svc, err := c.Kube.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
	must(t, err)
	a.to = netip.AddrPortFrom(netip.MustParseAddr(svc.Spec.ClusterIP), 80)
	return a
}

// open opens the network namespace of the app's pod on a node.
func (a *app) open(node string) (*netlab.NS, error) {
	return netlab.OpenNS("pod-" + string(a.pods[node].UID))
}

// ns is open for the time of a test.
func (a *app) ns(t *testing.T, node string) *netlab.NS {
	t.Helper()
	ns, err := a.open(node)
	must(t, err)
	t.Cleanup(ns.Leave) // a stand-in's pods keep their names
	return ns
}

// ips are the addresses of the app's pods.
func (a *app) ips() (list []netip.Addr) {
	for _, p := range a.pods {
		list = append(list, netip.MustParseAddr(p.Status.PodIP))
	}
	return list
}

// unitOf finds the unit of who answered: a pod by its name, or a node, whose
// name pods in its network have.
func (a *app) unitOf(name string) string {
	for node, p := range a.pods {
		if p.Name == name || node == name {
			return c.Nodes[node].Unit.Name
		}
	}
	return "?"
}

// served waits until a pod of each node reaches a Service, and then holds that
// its unit alone answers.
func served(t *testing.T, from, to *app) {
	t.Helper()
	for node := range c.Nodes {
		servedOn(t, node, from, to)
	}
}

// servedOn is served of a pod of one node. It returns who answered.
func servedOn(t *testing.T, node string, from, to *app) (by map[string]bool) {
	t.Helper()
	ns, by := from.ns(t, node), map[string]bool{}
	reachedFrom(t, ns, to.to)
	for range 10 {
		got, err := edge.Ask(ns, "tcp", to.to, answered)
		if err == nil && to.unitOf(got.Name) != c.Nodes[node].Unit.Name {
			err = errors.New("it is of another unit")
		}
		if err != nil {
			t.Errorf("from a pod of %s: answered by %q: %v", node, got.Name, err)
		}
		by[got.Name] = true
	}
	return by
}
