package real

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// darkFor is long enough for the controller manager to declare every node of a
// unit lost (20 s in this cluster) and to mark its pods as not ready.
const darkFor = 65 * time.Second

// A unit whose uplink was cut and is healed served its own pods all along: no
// request inside it fails, also not while the cloud's stale verdict about its
// pods arrives, which real kubelets take back within seconds.
func TestUplinkHealed(t *testing.T) {
	needReal(t)
	deployed(t)
	a := deploy(t, "healed", 8080, false)
	served(t, a, a)
	from := []*netlab.NS{a.ns(t, "a-1"), a.ns(t, "a-2")}
	unit := c.Lab.Unit("a")
	t.Cleanup(func() { must(t, unit.HealUplink()) })
	must(t, unit.CutUplink())
	stop := make(chan struct{})
	asked := make(chan []request, 1)
	go func() { asked <- dial(from, a.to, stop) }()
	since := time.Now()
	wait.Eventually(t, func() error { return declaredLost("a-1", "a-2") })
	time.Sleep(time.Until(since.Add(darkFor))) // an outage that lasts so long
	must(t, declaredLost("a-1", "a-2"))
	must(t, unit.HealUplink())
	healed := time.Now()
	must(t, c.WaitNodes(patient(t)))
	_, err := c.WaitPods(patient(t), "default", "app=healed", len(c.Nodes))
	must(t, err)
	t.Logf("nodes and pods were ready again %s after the heal", time.Since(healed).Round(10*time.Millisecond))
	time.Sleep(5 * time.Second) // and what is still on its way
	close(stop)
	report(t, <-asked, healed)
	wait.Eventually(t, func() error { return c.NodesReady(patient(t)) })
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

// request is one that was made, and its error.
type request struct {
	at  time.Time
	err error
}

// dial asks from every namespace in turn until stop is closed.
func dial(from []*netlab.NS, to netip.AddrPort, stop chan struct{}) (list []request) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return list
		default:
		}
		at := time.Now()
		_, err := edge.Ask(from[i%len(from)], "tcp", to, answered)
		list = append(list, request{at, err})
		time.Sleep(20 * time.Millisecond)
	}
}

// report counts what failed before and after the heal.
func report(t *testing.T, list []request, healed time.Time) {
	t.Helper()
	failed := slices.DeleteFunc(slices.Clone(list), func(r request) bool { return r.err == nil })
	dark := slices.IndexFunc(failed, func(r request) bool { return r.at.After(healed) })
	if dark < 0 {
		dark = len(failed)
	}
	t.Logf("%d requests inside the unit: %d failed while it was cut, %d after the heal", len(list), dark, len(failed)-dark)
	if len(list) < 1000 {
		t.Errorf("only %d requests were made", len(list))
	}
	for i, r := range failed {
		if i == 0 || i == len(failed)-1 {
			t.Errorf("failed %s after the heal: %v", r.at.Sub(healed).Round(time.Millisecond), r.err)
		}
	}
}
