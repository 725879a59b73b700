package real

import (
	"context"
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

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/outage"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// inside are the nodes of the unit whose uplink is cut.
var inside = [2]string{"a-1", "a-2"}

// A unit whose uplink was cut and is healed served its own pods all along: no
// request inside it fails, also not while the cloud's stale verdict about its
// pods arrives, which real kubelets take back within seconds. Pods that
// Kubernetes may delete are asked as well; what comes of it where it does, one
// app shows.
func TestUplinkHealed(t *testing.T) {
	needReal(t)
	deployed(t)
	a := deploy(t, "healed", 8080, false)
	served(t, a, a)
	kept, brief := outage.Staying(t, c, cutFor, inside), outage.Deploy(t, c, "brief", outage.Brief, inside)
	from := []*netlab.NS{c.Nodes["a-1"].NS, c.Nodes["a-2"].NS, a.ns(t, "a-1"), a.ns(t, "a-2")}
	to := []netip.AddrPort{a.to, anywhere(t, "healed")}
	for _, ns := range from {
		wait.Eventually(t, func() error { _, err := edge.Ask(ns, "tcp", to[1], answered); return err })
	}
	for _, app := range append(kept, brief) {
		for _, ns := range from {
			wait.Eventually(t, func() error { _, err := edge.Ask(ns, "tcp", app.To, answered); return err })
		}
		if app != brief {
			to = append(to, app.To)
		}
	}

	unit := c.Lab.Unit("a")
	t.Cleanup(func() { must(t, unit.HealUplink()) })
	must(t, unit.CutUplink())
	cut := time.Now()
	dials, briefs := load.Sparse(t, from, to...), load.Sparse(t, from, brief.To)
	wait.Eventually(t, func() error { return declaredLost(inside[:]...) })
	for _, app := range kept {
		wait.Eventually(t, func() error { return app.Lost(patient(t)) })
	}
	wait.Eventually(t, func() error { return brief.Deleted(patient(t)) })
	time.Sleep(time.Until(cut.Add(cutFor))) // an outage that lasts so long
	must(t, declaredLost(inside[:]...))
	if list := holding(inside[:]...); len(list) != len(inside) {
		t.Errorf("of the agents on %v only those on %v have noted the outage", inside, list)
	}
	must(t, unit.HealUplink())
	healed := time.Now()
	must(t, c.WaitNodes(patient(t)))
	_, err := c.WaitPods(patient(t), "default", "app=healed", len(c.Nodes))
	must(t, err)
	for _, app := range kept {
		wait.Eventually(t, func() error { return app.Ready(patient(t)) })
	}
	t.Logf("nodes and pods were ready again %s after the heal", time.Since(healed).Round(10*time.Millisecond))
	brief.GoneForAWhile(t, from, briefs, healed)
	wait.Eventually(t, func() error { // from then on it is the cloud's word alone that counts
		if list := holding(inside[:]...); len(list) > 0 {
			return fmt.Errorf("%v hold what was before the outage", list)
		}
		return nil
	})
	t.Logf("agents held nothing any more %s after the heal", time.Since(healed).Round(10*time.Millisecond))
	load.NoneFailed(t, fmt.Sprintf("uplink cut for %s, and %s after the heal", healed.Sub(cut).Round(time.Second), time.Since(healed).Round(time.Second)), dials.Stop())
	for _, app := range kept {
		must(t, app.Stayed(patient(t)))
	}
	for _, n := range inside {
		held(t, n, healed)
	}
}

// anywhere is a Service of an app's pods that other units may answer, too.
func anywhere(t *testing.T, app string) netip.AddrPort {
	t.Helper()
	name := app + "any"
	must(t, c.Apply(strings.NewReplacer("NAME", name, "APP", app).Replace(`
apiVersion: v1
kind: Service
metadata: {name: NAME, annotations: {topologyKeys: '["unit", "*"]'}}
spec: {selector: {app: APP}, ports: [{port: 80, targetPort: main}]}
`)))
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "service/"+name)
		must(t, err)
	})
	svc, err := c.Kube.CoreV1().Services("default").Get(patient(t), name, metav1.GetOptions{})
	must(t, err)
	return netip.AddrPortFrom(netip.MustParseAddr(svc.Spec.ClusterIP), 80)
}

// held: without a hold the test shows nothing.
func held(t *testing.T, node string, since time.Time) {
	t.Helper()
	log, err := c.Kubectl("-n", "gridmesh", "logs", podOf(t, node, "gridmesh-agent").Name, "--since-time", since.UTC().Format(time.RFC3339))
	must(t, err)
	if !strings.Contains(log, "endpoints are held as they were") {
		t.Errorf("the agent of %s held nothing, so this shows nothing:\n%s", node, log)
	}
}

// holding are the nodes on which an outage, or what is held after it, lasts.
func holding(nodes ...string) (list []string) {
	for _, name := range nodes {
		if _, err := os.Stat(filepath.Join(filepath.Dir(c.Nodes[name].StateFile()), "outage")); err == nil {
			list = append(list, name)
		}
	}
	return list
}

// declaredLost returns nil once the API server has the pods of all these nodes
// as not ready: the verdict that reaches the unit with the heal.
func declaredLost(nodes ...string) error {
	pods, err := c.Pods(context.Background(), "default", "app=healed")
	if err != nil {
		return err
	}
	for _, p := range pods {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue && slices.Contains(nodes, p.Spec.NodeName) {
				return fmt.Errorf("%s on %s is ready", p.Name, p.Spec.NodeName)
			}
		}
	}
	return nil
}
