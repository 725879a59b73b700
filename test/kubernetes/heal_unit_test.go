package kubernetes

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// cutFor is longer than the cloud waits for a node, and afterHeal how long after the
// heal nothing may fail.
const cutFor, afterHeal = 65 * time.Second, time.Minute

// slowKubelet is how long the unit's kubelets need after the heal.
const slowKubelet = 15 * time.Second

// The uplink of a unit is cut for longer than the cloud waits, and healed, with
// traffic running inside all the while: the cloud's word about the unit's pods
// is stale then, and no request fails. One agent starts again meanwhile, and one
// pod is really deleted: it goes after the hold.
func TestHealDarkensNoUnit(t *testing.T) {
	leaks.None(t, c.Lab, leaks.Any)
	a, victim := deploy(t, "heal"), deploy(t, "healgone")
	a.closedEverywhere(t)
	victim.closedEverywhere(t)
	first, second := c.Nodes["a-1"], c.Nodes["a-2"]
	for _, n := range []string{"a-1", "a-2"} {
		wait.Eventually(t, func() error { return c.Nodes[n].Kept("state/state", "default/heal", a.ips(t, "a-1", "a-2")...) })
	}
	u := c.Lab.Unit("a")
	begin := time.Now()
	must(t, u.CutUplink())
	t.Cleanup(func() { must(t, u.HealUplink()) })
	dials := load.Start(t, []*netlab.NS{first.NS, second.NS, a.ns(t, "a-1"), a.ns(t, "a-2")}, a.at(0), a.at(1))
	dials.More(t, 20)

	ctx := patient(t)
	must(t, c.Kube.CoreV1().Pods("default").Delete(ctx, victim.pods["a-2"].Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	time.Sleep(cutFor / 2) // an agent that starts again in the middle of it
	second.Agent.Signal(syscall.SIGKILL)
	must(t, second.StartAgent())
	wait.Eventually(t, func() error { return a.unreadyIn(t, "a-1", "a-2") })
	time.Sleep(time.Until(begin.Add(cutFor)))
	dials.More(t, 20)
	// Kubelets are not back at once: after an outage they may wait half a minute.
	for _, n := range []string{"a-1", "a-2"} {
		kubelet := c.Nodes[n].Kubelet
		kubelet.Signal(syscall.SIGSTOP)
		t.Cleanup(func() { kubelet.Signal(syscall.SIGCONT) })
	}
	must(t, u.HealUplink())
	healed := time.Now()
	time.Sleep(slowKubelet)
	for _, n := range []string{"a-1", "a-2"} {
		c.Nodes[n].Kubelet.Signal(syscall.SIGCONT)
	}
	time.Sleep(time.Until(healed.Add(afterHeal)))
	dials.More(t, 20)
	load.NoneFailed(t, fmt.Sprintf("uplink cut for %s, and %s after the heal", healed.Sub(begin).Round(time.Second), afterHeal), dials.Stop())
	gone := victim.ips(t, "a-2")
	took := wait.Eventually(t, func() error { return holds(t, "a-1", gone...) })
	t.Logf("the pod that was deleted went at most %s after the heal", took+afterHeal)
	for _, n := range []string{"a-1", "a-2"} {
		if log := c.Nodes[n].Agent.Log(); !strings.Contains(log, "endpoints are held as they were") {
			t.Errorf("the agent of %s held nothing, so this shows nothing:\n%s", n, log)
		}
		wait.Eventually(t, func() error {
			out, err := c.Nodes[n].Run("status")
			if err == nil && strings.Contains(string(out), "\nheld ") {
				err = fmt.Errorf("%s still holds:\n%s", n, out)
			}
			return err
		})
	}
	a.closedEverywhere(t)
}

// holds returns an error while Envoy of a node has any of the addresses.
func holds(t *testing.T, node string, addrs ...netip.Addr) error {
	t.Helper()
	out, err := c.Nodes[node].Admin("/clusters")
	if err != nil {
		return err
	}
	for _, addr := range addrs {
		if to := netip.AddrPortFrom(addr, 8080).String(); strings.Contains(out, "::"+to+"::") {
			return fmt.Errorf("Envoy of %s has %s", node, to)
		}
	}
	return nil
}

// unreadyIn returns an error unless the cloud counts every endpoint of an app
// on the nodes as not ready.
func (a *app) unreadyIn(t *testing.T, nodes ...string) error {
	t.Helper()
	list, err := c.Kube.DiscoveryV1().EndpointSlices("default").List(patient(t), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + a.name})
	if err != nil {
		return err
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			for _, node := range nodes {
				if ptr.Deref(e.NodeName, "") == node && ptr.Deref(e.Conditions.Ready, true) {
					return fmt.Errorf("the cloud still counts %s on %s as ready", a.name, node)
				}
			}
		}
	}
	return nil
}
