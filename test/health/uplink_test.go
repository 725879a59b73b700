package health

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/outage"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// voted waits until nodes have a verdict.
func voted(t *testing.T, want string, nodes ...string) {
	t.Helper()
	for _, name := range nodes {
		took := wait.Eventually(t, func() error {
			n, err := c.Kube.CoreV1().Nodes().Get(patient(t), name, metav1.GetOptions{})
			if err == nil && n.Annotations[names.NodeHealth] != want {
				err = fmt.Errorf("%s is voted %q (%s), want %q", name, n.Annotations[names.NodeHealth], n.Annotations[names.Evidence], want)
			}
			return err
		})
		t.Logf("%s is voted %s after %s", name, want, took.Round(time.Second))
	}
}

func taints(t *testing.T, node string) (list []string) {
	t.Helper()
	n, err := c.Kube.CoreV1().Nodes().Get(patient(t), node, metav1.GetOptions{})
	must(t, err)
	for _, taint := range n.Spec.Taints {
		list = append(list, taint.Key+":"+string(taint.Effect))
	}
	return list
}

const (
	evicts  = corev1.TaintNodeUnreachable + ":" + string(corev1.TaintEffectNoExecute)
	refuses = corev1.TaintNodeUnreachable + ":" + string(corev1.TaintEffectNoSchedule)
)

// lost waits until the cloud takes a node for lost.
func lost(t *testing.T, node string) {
	t.Helper()
	took := wait.Eventually(t, func() error {
		if got := taints(t, node); !slices.Contains(got, refuses) {
			return fmt.Errorf("%s has the taints %v", node, got)
		}
		return nil
	})
	t.Logf("the cloud takes %s for lost after %s", node, took.Round(time.Second))
}

// endpoints are the slices of a Service with their versions: any write shows.
func endpoints(t *testing.T, service string) (text string) {
	t.Helper()
	list, err := c.Kube.DiscoveryV1().EndpointSlices("default").List(patient(t), metav1.ListOptions{LabelSelector: names.ServiceName + "=" + service})
	must(t, err)
	for _, s := range list.Items {
		text += fmt.Sprint(s.Name, " version ", s.ResourceVersion, " ")
		for _, e := range s.Endpoints {
			text += fmt.Sprint(e.Addresses, " ready ", *e.Conditions.Ready, " ")
		}
	}
	return text
}

// A node loses its uplink alone: no pod is deleted, no endpoint is removed, no request fails,
// and nothing new is placed on it.
func TestUplinkOfOneNode(t *testing.T) {
	controller(t)
	policies(t)
	voters(t, "a-1", "a-2", "a-3", "b-1", "b-2")
	app := outage.Deploy(t, c, "one", outage.Brief, [2]string{"a-1", "a-2"})
	voted(t, "true", "a-1", "a-2", "a-3", "b-1", "b-2")
	before := endpoints(t, app.Service)
	dials := load.Start(t, []*netlab.NS{c.Nodes["a-1"].NS, c.Nodes["a-2"].NS}, app.To)
	dials.More(t, 20)
	must(t, c.Lab.SetNodeUplink("a-2", true))
	t.Cleanup(func() { must(t, c.Lab.SetNodeUplink("a-2", false)) })
	lost(t, "a-2")
	wait.Holds(t, 30*time.Second, func() error {
		if got := taints(t, "a-2"); slices.Contains(got, evicts) {
			return fmt.Errorf("a-2 has the taints %v", got)
		}
		if err := app.Stayed(patient(t)); err != nil {
			return err
		}
		if now := endpoints(t, app.Service); now != before {
			return fmt.Errorf("endpoints are %s, were %s", now, before)
		}
		return nil
	})
	must(t, c.Lab.SetNodeUplink("a-2", false))
	wait.Eventually(t, func() error {
		if got := taints(t, "a-2"); len(got) > 0 {
			return fmt.Errorf("a-2 has the taints %v", got)
		}
		return nil
	})
	dials.More(t, 20)
	load.NoneFailed(t, "the uplink of a-2 was cut and healed", dials.Stop())
}
