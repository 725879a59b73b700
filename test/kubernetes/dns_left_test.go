package kubernetes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// A Service that is left to another proxy is somebody's name: the cluster's DNS answers for it, and
// with the cloud away nobody says that it does not exist, as of a name that no Service has, after
// restarts of DNS and agent too; also where the label came while the node watched.
func TestNamesLeftToOtherProxies(t *testing.T) {
	upstreamDNS(t)
	nodeDNS(t)
	n := c.Nodes["a-1"]
	left := map[string]string{"left": leftService(t, "left", map[string]string{names.ServiceProxyName: "other"}), "later": leftService(t, "later", nil)}
	full := func(service string) string { return service + ".default.svc.cluster.local." }
	for service, ip := range left {
		resolvesFrom(t, n.NS, local, full(service), dns.TypeA, ip)
	}
	wait.Eventually(t, func() error { return n.Kept(edge.DNSState, "default/later") })
	later, err := c.Kube.CoreV1().Services("default").Get(patient(t), "later", metav1.GetOptions{})
	must(t, err)
	later.Labels = map[string]string{names.ServiceProxyName: "other"}
	_, err = c.Kube.CoreV1().Services("default").Update(patient(t), later, metav1.UpdateOptions{})
	must(t, err)
	wait.Eventually(t, func() error {
		return errors.Join(n.KeptName(edge.DNSState, "default/left"), n.KeptName(edge.DNSState, "default/later"))
	})

	must(t, c.Lab.Unit("a").CutUplink())
	t.Cleanup(func() { must(t, c.Lab.Unit("a").HealUplink()) })
	n.Agent.Kill()
	n.DNS.Kill()
	t.Cleanup(func() {
		if !n.Agent.Running() {
			must(t, n.StartAgent())
		}
	})
	asked := func(what string) {
		t.Helper()
		want := map[string]int{full("left"): dns.RcodeServerFailure, full("later"): dns.RcodeServerFailure, full("nobody"): dns.RcodeNameError}
		for name, rcode := range want {
			took := wait.Eventually(t, func() error {
				m, err := edge.Exchange(n.NS, "udp", local, new(dns.Msg).SetQuestion(name, dns.TypeA))
				if err == nil && (m.Rcode != rcode || len(m.Answer) > 0) {
					err = fmt.Errorf("%s with %d records, want %s", dns.RcodeToString[m.Rcode], len(m.Answer), dns.RcodeToString[rcode])
				}
				if err != nil {
					err = fmt.Errorf("%s, %s: %w", name, what, err)
				}
				return err
			})
			t.Logf("%s, %s: %s after %s", name, what, dns.RcodeToString[rcode], took.Round(time.Millisecond))
		}
	}
	must(t, n.StartDNS(netlab.CloudIP.String()))
	asked("the DNS is new")
	must(t, n.StartAgent()) // which knows less: what it needs itself
	asked("the agent is new")
	n.DNS.Kill()
	must(t, n.StartDNS(netlab.CloudIP.String()))
	asked("both are new")
}

// leftService makes a Service with a ClusterIP, which it returns.
func leftService(t *testing.T, name string, labels map[string]string) string {
	t.Helper()
	s, err := c.Kube.CoreV1().Services("default").Create(patient(t), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, c.Kube.CoreV1().Services("default").Delete(patient(t), name, metav1.DeleteOptions{}))
	})
	return s.Spec.ClusterIP
}
