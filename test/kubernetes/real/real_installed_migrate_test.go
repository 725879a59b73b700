package real

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// openManifest is a Service without keys of an app, at a node port as well.
const openManifest = `
apiVersion: v1
kind: Service
metadata: {name: NAME-open}
spec: {type: NodePort, selector: {app: NAME}, ports: [{port: 80, targetPort: main}]}
`

// A cluster goes from kube-proxy to gridmesh and back by DaemonSets alone, as
// docs/migrate.md has it: no connection fails, of pods nor of nodes, one that is open goes
// on, and at the end nothing of gridmesh is left.
func TestMigrationByDaemonSets(t *testing.T) {
	needReal(t)
	bare(t)
	a := deploy(t, "moved", 8080, false)
	startProxies(t)
	open := a.opened(t, "moved")
	for _, n := range c.Nodes {
		reachedFrom(t, a.ns(t, n.Name), a.to, open.clusterIP, netip.AddrPortFrom(n.IP, open.nodePort))
	}
	again := holdOpen(t, a.ns(t, newNode), open.clusterIP)
	var dials []*load.Generator
	for _, n := range c.Nodes {
		dials = append(dials, load.Start(t, []*netlab.NS{n.NS, a.ns(t, n.Name)}, a.to, open.clusterIP, netip.AddrPortFrom(n.IP, open.nodePort)))
	}
	more := func() {
		for _, g := range dials {
			g.More(t, 30)
		}
	}
	more()

	w := newWalk(t)
	w.run(fenced(t, w.page, "**A kustomization of yours**"))
	w.edit("# - ../deploy/take-over", "- ../deploy/take-over")
	w.run(fenced(t, w.page, "**Once.**"))
	w.page = w.read("docs/migrate.md")
	w.run(indented(t, w.page, "a kustomization over your copy of `deploy/cleanup`"))
	w.run(indented(t, w.page, "then every node is one command, and no drain"))
	w.run(indented(t, w.page, "Begin with a node, and look"))
	more()
	w.run(strings.ReplaceAll(indented(t, w.page, "go on with a site, then with all"), "unit=shop-17", "unit=a"))
	for _, n := range c.Nodes {
		w.run("NODE=" + n.Name + "\n" + indented(t, w.page, "Begin with a node, and look"))
	}
	more()
	served(t, a, a)
	for _, n := range c.Nodes {
		if left := traces(t, n); len(left) < 8 {
			t.Errorf("gridmesh serves %s, and this is all of it: %q", n.Name, left)
		}
	}
	again()

	w.edit("patches:\n", "patches:\n  "+strings.ReplaceAll(strings.TrimSpace(indented(t, w.page, "Give the agents `--datapath=kernel`")), "\n", "\n  ")+"\n")
	w.run(indented(t, w.page, "let them roll"))
	more()
	w.run(indented(t, w.page, "Apply the way back"))
	w.run(indented(t, w.page, "kube-proxy starts; agent, Envoy and DNS end"))
	more()
	for _, n := range c.Nodes {
		if left := traces(t, n); len(left) > 0 {
			t.Errorf("%s is kube-proxy's, and has:\n%s", n.Name, strings.Join(left, "\n"))
		}
	}
	again()
	w.run(indented(t, w.page, "Once all nodes are kube-proxy's"))
	for _, g := range dials {
		load.NoneFailed(t, "from a node and its pod", g.Stop())
	}
}

// bare takes gridmesh away where a test before has it serve.
func bare(t *testing.T) {
	t.Helper()
	pods, err := c.Pods(patient(t), "gridmesh", "app.kubernetes.io/name=gridmesh-agent")
	must(t, err)
	if len(pods) > 0 {
		everythingGone(t)
	}
}

// opened is where the pods of an app are reached without keys.
type opened struct {
	clusterIP netip.AddrPort
	nodePort  uint16
}

func (a *app) opened(t *testing.T, name string) opened {
	t.Helper()
	must(t, c.Apply(strings.ReplaceAll(openManifest, "NAME", name)))
	t.Cleanup(func() { kubectl(t, "delete", "service/"+name+"-open") })
	svc, err := c.Kube.CoreV1().Services("default").Get(patient(t), name+"-open", metav1.GetOptions{})
	must(t, err)
	return opened{netip.AddrPortFrom(netip.MustParseAddr(svc.Spec.ClusterIP), 80), uint16(svc.Spec.Ports[0].NodePort)}
}

// reachedFrom waits until all of them answer.
func reachedFrom(t *testing.T, ns *netlab.NS, to ...netip.AddrPort) {
	t.Helper()
	for _, to := range to {
		wait.Eventually(t, func() error {
			_, err := edge.Ask(ns, "tcp", to, answered)
			return err
		})
	}
}

// holdOpen opens a connection, and returns what asks over it.
func holdOpen(t *testing.T, ns *netlab.NS, to netip.AddrPort) func() {
	t.Helper()
	conn, err := ns.Dial(patient(t), "tcp", to.String())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	answers := bufio.NewReader(conn)
	return func() {
		t.Helper()
		_ = conn.SetDeadline(time.Now().Add(answered))
		if _, err := fmt.Fprintln(conn, "who"); err != nil {
			t.Errorf("the connection that is open: %v", err)
		} else if _, err := answers.ReadString('\n'); err != nil {
			t.Errorf("the connection that is open: %v", err)
		}
	}
}

// read reads a page of the checkout.
func (w *walk) read(page string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(edge.Root(), page))
	must(w.t, err)
	return string(text)
}

// edit replaces what is once in the reader's own kustomization.
func (w *walk) edit(before, after string) {
	w.t.Helper()
	file := filepath.Join(w.dir, "my-gridmesh/kustomization.yaml")
	text, err := os.ReadFile(file)
	must(w.t, err)
	if strings.Count(string(text), before) != 1 {
		w.t.Fatalf("%s has not %q once:\n%s", file, before, text)
	}
	must(w.t, os.WriteFile(file, []byte(strings.Replace(string(text), before, after, 1)), 0o600))
}
