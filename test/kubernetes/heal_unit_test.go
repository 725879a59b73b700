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
	"github.com/gridmesh/gridmesh/test/cluster/outage"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// afterHeal is how long after the heal nothing may fail.
const afterHeal = time.Minute

// slowKubelet is how long the unit's kubelets need after the heal.
const slowKubelet = 15 * time.Second

// inside are the nodes of the unit whose uplink is cut.
var inside = [2]string{"a-1", "a-2"}

// healing is a unit whose uplink is cut and healed, and who dials in it.
type healing struct {
	a, victim *app          // of DaemonSets; one of the victim's pods is deleted
	kept      []*outage.App // of which Kubernetes deletes no pod
	brief     *outage.App   // of which it does
	from      []*netlab.NS

	dials, briefs *load.Generator
	begin, healed time.Time
	said          map[string]int // by node: how much its agent had written before the heal
}

// The uplink of a unit is cut for longer than the cloud waits, and healed, with
// traffic running inside all the while: the cloud's word about the unit's pods
// is stale then, and no request fails, nor is answered by another unit where one
// may answer. One agent starts again meanwhile, and one pod is really deleted: it
// goes after the hold. Pods that Kubernetes may delete are among those asked; what
// comes of it where it does, one app shows.
func TestHealDarkensNoUnit(t *testing.T) {
	beside(t, "a")
	leaks.None(t, c.Lab, leaks.Any, "a", "b") // in c others migrate meanwhile
	h := &healing{a: deploy(t, "heal"), victim: deploy(t, "healgone"), said: map[string]int{}}
	h.a.closedEverywhere(t)
	h.victim.closedEverywhere(t)
	controller(t)
	h.kept, h.brief = outage.Staying(t, c, cutFor, inside), outage.Deploy(t, c, "brief", outage.Brief, inside)
	to := []netip.AddrPort{h.a.at(0), h.a.at(1), h.anywhere(t)}
	onDisk(t, "heal", h.a.ips(t, inside[:]...))
	for _, app := range append(h.kept, h.brief) {
		onDisk(t, app.Service, app.IPs())
		if app != h.brief {
			to = append(to, app.To)
		}
	}
	h.from = []*netlab.NS{c.Nodes["a-1"].NS, c.Nodes["a-2"].NS, h.a.ns(t, "a-1"), h.a.ns(t, "a-2")}
	for _, ns := range h.from {
		for _, addr := range append(to, h.brief.To) {
			wait.Eventually(t, func() error { _, err := ask(ns, "tcp", addr); return err })
		}
	}
	h.cut(t, to)
	h.heal(t)
	h.judge(t)
}

// anywhere is a Service of the same pods that other units may answer, too.
func (h *healing) anywhere(t *testing.T) netip.AddrPort {
	t.Helper()
	name := h.a.name + "any"
	must(t, c.Apply(strings.NewReplacer("NAME", name, "APP", h.a.name).Replace(`
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
	var ips []netip.Addr // of the Service's family
	for _, ip := range h.a.ips(t, inside[:]...) {
		if ip.Is4() {
			ips = append(ips, ip)
		}
	}
	onDisk(t, name, ips)
	return mustAddrPort(svc.Spec.ClusterIP, 80)
}

// onDisk waits until an agent that starts again would know these endpoints.
func onDisk(t *testing.T, service string, ips []netip.Addr) {
	t.Helper()
	for _, n := range inside {
		wait.Eventually(t, func() error { return c.Nodes[n].Kept("state/state", "default/"+service, ips...) })
	}
}

// cut cuts the uplink, and lasts until the cloud has given the unit up, and for
// as long as the uplink is to be away.
func (h *healing) cut(t *testing.T, to []netip.AddrPort) {
	t.Helper()
	h.begin = time.Now()
	must(t, c.Lab.Unit("a").CutUplink())
	t.Cleanup(func() { must(t, c.Lab.Unit("a").HealUplink()) })
	h.dials, h.briefs = load.Sparse(t, h.from, to...), load.Sparse(t, h.from, h.brief.To)
	h.dials.More(t, 20)
	must(t, c.Kube.CoreV1().Pods("default").Delete(patient(t), h.victim.pods["a-2"].Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	time.Sleep(time.Until(h.begin.Add(cutFor / 2))) // an agent that starts again in the middle of it
	second := c.Nodes["a-2"]
	second.Agent.Signal(syscall.SIGKILL)
	must(t, second.StartAgent())
	wait.Eventually(t, func() error { return h.a.unreadyIn(t, inside[:]...) })
	for _, app := range h.kept {
		wait.Eventually(t, func() error { return app.Lost(patient(t)) })
	}
	wait.Eventually(t, func() error { return h.brief.Deleted(patient(t)) })
	h.dials.More(t, 20)
	time.Sleep(time.Until(h.begin.Add(cutFor)))
}

// heal heals the uplink. Kubelets are not back at once: after an outage they may
// wait half a minute.
func (h *healing) heal(t *testing.T) {
	t.Helper()
	for _, n := range inside {
		h.said[n] = len(c.Nodes[n].Agent.Log())
		kubelet := c.Nodes[n].Kubelet
		kubelet.Signal(syscall.SIGSTOP)
		t.Cleanup(func() { kubelet.Signal(syscall.SIGCONT) })
	}
	must(t, c.Lab.Unit("a").HealUplink())
	h.healed = time.Now()
	time.Sleep(slowKubelet)
	for _, n := range inside {
		c.Nodes[n].Kubelet.Signal(syscall.SIGCONT)
	}
	time.Sleep(time.Until(h.healed.Add(afterHeal)))
	h.dials.More(t, 20)
}

func (h *healing) judge(t *testing.T) {
	t.Helper()
	list := h.dials.Stop()
	load.NoneFailed(t, fmt.Sprintf("uplink cut for %s, and %s after the heal", h.healed.Sub(h.begin).Round(time.Second), afterHeal), list)
	h.fromInside(t, list)
	for _, app := range h.kept {
		must(t, app.Stayed(patient(t)))
	}
	h.brief.GoneForAWhile(t, h.from, h.briefs, h.healed)
	gone := h.victim.ips(t, "a-2")
	took := wait.Eventually(t, func() error { return holds(t, "a-1", gone...) })
	t.Logf("the pod that was deleted went at most %s after the heal", took+afterHeal)
	for _, n := range inside {
		h.heldAndLetGo(t, n)
	}
	h.a.closedEverywhere(t)
}
