package kubernetes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/kubelet"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/outage"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// c is the cluster that every test of this package shares, served are the nodes whose agent and
// Envoy it started, and cutFor is how long a test of a heal cuts an uplink.
var (
	c      *cluster.Cluster
	served []*cluster.Node
	cutFor time.Duration
)

func TestMain(m *testing.M) {
	sandbox.Run(func() int {
		// client-go then checks that nobody writes to what its informers hold,
		// in every program of gridmesh, and panics.
		err := os.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true")
		cut, grace, wrong := outage.Length()
		if err = errors.Join(err, wrong); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		cutFor = cut
		kube.LogTo(slog.New(slog.DiscardHandler)) // before any client runs: it is global
		ctx, cancel := context.WithTimeout(context.Background(), 2*wait.Patience)
		defer cancel()
		start := time.Now()
		kinds := []netlab.PodNetwork{netlab.Routed, netlab.Bridged}
		c, err = cluster.Up(ctx, cluster.Config{
			Lab: netlab.Config{Units: []netlab.UnitConfig{{Name: "a", Nodes: kinds}, {Name: "b", Nodes: kinds}, {Name: "c", Nodes: kinds}}, Links: [][2]string{{"a", "b"}}},
			// Unit c has no proxy of the cluster's own: deploy/ is applied to it.
			Proxy:     map[string]string{"": "gridmesh", "c-1": "", "c-2": ""},
			Images:    map[string]kubelet.Image{"gridmesh.test/resolvers": resolvers()},
			NodeGrace: grace,
			Say:       func(format string, args ...any) { fmt.Printf("cluster: "+format+"\n", args...) },
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "cluster:", err)
			return 1
		}
		fmt.Printf("cluster: up in %s\n", time.Since(start).Round(10*time.Millisecond))
		for _, n := range c.Nodes {
			if n.Agent != nil {
				served = append(served, n)
			}
		}
		// One that waits for another's unit holds a place: on one core there would be none for what it waits for.
		flag.Parse()
		if err := flag.Set("test.parallel", "8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	})
}

// taken has a lock for each unit that a test beside others has for itself.
var taken = map[string]*sync.Mutex{"a": {}, "c": {}}

// beside lets a test run beside others of its kind, once all of the other kind are over: of those that
// wait for minutes. It changes the nodes of one unit, which it has for itself.
func beside(t *testing.T, unit string) {
	t.Helper()
	t.Parallel()
	taken[unit].Lock()
	t.Cleanup(taken[unit].Unlock)
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

// app is a DaemonSet with a pod on every node, and a closed Service.
type app struct {
	name string
	svc  *corev1.Service
	pods map[string]*corev1.Pod // by node
}

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
      containers:
      - name: app
        image: gridmesh.test/app
        ports: [{name: main, containerPort: 8080}]
        readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, annotations: {topologyKeys: '["unit"]'}}
spec:
  ipFamilyPolicy: RequireDualStack
  selector: {app: NAME}
  ports: [{name: tcp, port: 80, targetPort: main, protocol: TCP}, {name: udp, port: 80, targetPort: 8080, protocol: UDP}]
`

func deploy(t *testing.T, name string) *app {
	t.Helper()
	text := strings.NewReplacer("NAME", name).Replace(appManifest)
	must(t, c.Apply(text))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "--wait=true", "daemonset/"+name, "service/"+name)
		must(t, err)
	})
	ctx := patient(t)
	pods, err := c.WaitPods(ctx, "default", "app="+name, len(c.Nodes))
	must(t, err)
	a := &app{name: name, pods: map[string]*corev1.Pod{}}
	for i := range pods {
		a.pods[pods[i].Spec.NodeName] = &pods[i]
	}
	a.svc, err = c.Kube.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
	must(t, err)
	return a
}

func (a *app) at(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(a.svc.Spec.ClusterIPs[i]), 80)
}

// ns opens the network namespace of the app's pod on a node.
func (a *app) ns(t *testing.T, node string) *netlab.NS {
	t.Helper()
	ns, err := netlab.OpenNS("pod-" + string(a.pods[node].UID))
	must(t, err)
	return ns
}

// ips are the addresses of the pods on nodes.
func (a *app) ips(t *testing.T, nodes ...string) (list []netip.Addr) {
	t.Helper()
	for _, node := range nodes {
		for _, ip := range a.pods[node].Status.PodIPs {
			list = append(list, netip.MustParseAddr(ip.IP))
		}
	}
	return list
}

// nodeOf finds the node of a pod by its name.
func (a *app) nodeOf(pod string) string {
	for node, p := range a.pods {
		if p.Name == pod {
			return node
		}
	}
	return "?"
}

// endsWith ends a program with the test, and shows its log where that failed.
func endsWith(t *testing.T, p *edge.Process) {
	t.Cleanup(func() {
		p.Signal(syscall.SIGTERM) // and waits
		if t.Failed() {
			t.Logf("%s:\n%s", p.Name, p.Log())
		}
	})
}

// answers is when a request has failed: a slow machine is no failure. Nobody
// sends a lost packet again for UDP.
var answers = map[string]time.Duration{"tcp": 20 * time.Second, "udp": 3 * time.Second}

func ask(ns *netlab.NS, network string, to netip.AddrPort) (edge.Answer, error) {
	return edge.Ask(ns, network, to, answers[network])
}

func mustAddrPort(ip string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), port)
}

// resolvers is an image with programs that resolve names: by glibc, musl and Go.
func resolvers() kubelet.Image {
	image := kubelet.Image{Command: []string{"sleep", "infinity"}, Files: map[string]string{}}
	for _, name := range []string{"resolve-glibc", "resolve-musl", "lab-worker"} {
		image.Files["/app/"+name] = filepath.Join(edge.Root(), "bin", name)
	}
	return image
}
