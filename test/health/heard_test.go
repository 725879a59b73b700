package health

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// heard is an app with a pod on a-1 and one on a-3: behind a Service that Envoy serves and one
// that the kernel does, and behind one of the pod on a-3 alone.
type heard struct {
	node, other       *cluster.Node // a-1, which hears the vote; a-3, which it is about
	daemons           map[string]*voter
	byEnvoy, byKernel netip.AddrPort
	alone             netip.AddrPort
}

const heardService = `apiVersion: v1
kind: Service
metadata: {name: NAME, annotations: {topologyKeys: '["unit"]', gridmesh.io/datapath: PATH}}
spec: {selector: {heard: SELECTED}, ports: [{port: 80, targetPort: 8080}]}
---
`

const heardPod = `apiVersion: v1
kind: Pod
metadata: {name: heard-NODE, labels: {heard: all}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers: [{name: app, image: "gridmesh.test/app:1", imagePullPolicy: Never, ports: [{containerPort: 8080}], readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}]
---
`

func newHeard(t *testing.T) *heard {
	t.Helper()
	h := &heard{node: c.Nodes["a-1"], other: c.Nodes["a-3"], daemons: voters(t, "a-1", "a-2", "a-3")}
	yaml := ""
	for _, node := range []string{"a-1", "a-3"} {
		yaml += strings.ReplaceAll(heardPod, "NODE", node)
	}
	yaml = strings.Replace(yaml, "{name: heard-a-3, labels: {", "{name: heard-a-3, labels: {alone: it, ", 1)
	for name, of := range map[string]struct{ path, selector string }{
		"heard-by-envoy": {"envoy", "{heard: all}"}, "heard-by-kernel": {"kernel", "{heard: all}"}, "heard-alone": {"envoy", "{alone: it}"},
	} {
		yaml += strings.NewReplacer("NAME", name, "PATH", of.path, "{heard: SELECTED}", of.selector).Replace(heardService)
	}
	must(t, c.Apply(yaml))
	t.Cleanup(func() {
		if out, err := c.Kubectl("delete", "--now", "pods,services", "heard-a-1", "heard-a-3", "heard-by-envoy", "heard-by-kernel", "heard-alone", "--ignore-not-found"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	_, err := c.WaitPods(patient(t), metav1.NamespaceDefault, "heard=all", 2)
	must(t, err)
	for name, to := range map[string]*netip.AddrPort{"heard-by-envoy": &h.byEnvoy, "heard-by-kernel": &h.byKernel, "heard-alone": &h.alone} {
		s, err := c.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(patient(t), name, metav1.GetOptions{})
		must(t, err)
		*to = netip.AddrPortFrom(netip.MustParseAddr(s.Spec.ClusterIP), 80)
		h.reaches(t, "before", *to)
	}
	return h
}

// reaches waits until the pod on the other node answers.
func (h *heard) reaches(t *testing.T, when string, to ...netip.AddrPort) {
	t.Helper()
	for _, at := range to {
		wait.Eventually(t, func() error {
			a, err := edge.Ask(h.node.NS, "tcp", at, 20*time.Second)
			if err == nil && a.Name != "heard-a-3" {
				err = fmt.Errorf("%s: %s is answered by %s", when, at, a.Name)
			}
			return err
		})
	}
}

// avoids dials often, on both paths, and holds that the other node's pod answers nobody.
func (h *heard) avoids(t *testing.T, when string) {
	t.Helper()
	for _, at := range []netip.AddrPort{h.byEnvoy, h.byKernel} {
		var longest time.Duration
		for range 40 {
			a, err := edge.Ask(h.node.NS, "tcp", at, 20*time.Second)
			must(t, err)
			if a.Name != "heard-a-1" {
				t.Fatalf("%s: %s is answered by %s", when, at, a.Name)
			}
			longest = max(longest, a.Took)
		}
		t.Logf("%s: the longest of 40 connections to %s took %s", when, at, longest)
	}
}

// dead waits until so many nodes count as voted dead.
func (h *heard) dead(t *testing.T, n int, since string) {
	t.Helper()
	took := wait.Eventually(t, func() error {
		metrics, err := h.node.Metrics()
		if want := fmt.Sprintf("\ngridmesh_voted_dead_nodes %d\n", n); err == nil && !strings.Contains(metrics, want) {
			err = fmt.Errorf("a-1 does not say%s", want)
		}
		return err
	})
	t.Logf("%d count as dead %s after %s", n, took.Round(100*time.Millisecond), since)
}

// connectsFailed is how many connections of a Service's cluster Envoy could not make.
func (h *heard) connectsFailed(t *testing.T, to netip.AddrPort) string {
	t.Helper()
	stats, err := h.node.Admin("/stats?filter=upstream_cx_connect_fail")
	must(t, err)
	name := "cluster." + strings.ReplaceAll(to.String(), ":", "_") + ".upstream_cx_connect_fail: "
	for line := range strings.Lines(stats) {
		if n, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(n)
		}
	}
	t.Fatalf("no %s in %s", name, stats)
	return ""
}

// While the cloud is away a unit's vote decides to whom new connections go, on both paths:
// nobody is sent to a node that is voted dead, be it dead or not, but by a Service that has no
// other endpoint. It ends with the verdict, and with the daemon that tells of it; when the cloud
// is back, once that has heard the node.
func TestTheVoteIsHeard(t *testing.T) {
	h := newHeard(t)
	voted(t, "true", "a-1", "a-2", "a-3") // who knows the unit, and has heard it
	must(t, c.Lab.SetUplink("a", true))
	t.Cleanup(func() { must(t, c.Lab.SetUplink("a", false)) })
	wait.Eventually(t, func() error {
		if !strings.Contains(h.node.Agent.Log(), "the API server is silent") {
			return errors.New("the agent does not know that the cloud is away")
		}
		return nil
	})

	// Voted dead, and alive: who checks it finds nobody, and its pod answers.
	h.daemons["a-3"].Kill()
	h.other.Agent.Signal(syscall.SIGTERM)
	t.Cleanup(func() {
		if !h.other.Agent.Running() {
			must(t, h.other.StartAgent())
		}
	})
	h.dead(t, 1, "nobody could check a-3")
	h.avoids(t, "voted dead")
	h.reaches(t, "it has no other endpoint", h.alone)

	must(t, h.other.StartAgent())
	h.dead(t, 0, "a-3 could be checked again")
	h.reaches(t, "the verdict was withdrawn", h.byEnvoy, h.byKernel)

	// Dead: the first connections after the verdict wait for nobody.
	must(t, c.Lab.SetNode("a-3", true))
	t.Cleanup(func() { must(t, c.Lab.SetNode("a-3", false)) })
	h.dead(t, 1, "a-3 was cut off")
	before := h.connectsFailed(t, h.byEnvoy)
	h.avoids(t, "dead")
	if after := h.connectsFailed(t, h.byEnvoy); after != before {
		t.Errorf("Envoy could not make %s connections, %s before", after, before)
	}

	// What a daemon said last has its age.
	h.daemons["a-1"].Kill()
	h.dead(t, 0, "the daemon was killed")
	h.daemons["a-1"].start(t)
	h.dead(t, 1, "it was started again")

	// The cloud is back, and knows no more than before: what it says is held.
	before = h.connectsFailed(t, h.byEnvoy)
	must(t, c.Lab.SetUplink("a", false))
	wait.Eventually(t, func() error {
		if !strings.Contains(h.node.Agent.Log(), "the API server is back after an outage") {
			return errors.New("the agent does not know that the cloud is back")
		}
		return nil
	})
	h.avoids(t, "the cloud is back")
	if after := h.connectsFailed(t, h.byEnvoy); after != before {
		t.Errorf("with the cloud back Envoy could not make %s connections, %s before", after, before)
	}
	must(t, c.Lab.SetNode("a-3", false))
	h.dead(t, 0, "a-3 could be reached again")
	h.reaches(t, "healed", h.byEnvoy, h.byKernel)
}
