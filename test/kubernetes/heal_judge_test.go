package kubernetes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// fromInside holds that pods of the unit alone have answered.
func (h *healing) fromInside(t *testing.T, list []load.Dial) {
	t.Helper()
	own := map[string]bool{}
	for _, n := range inside {
		own[h.a.pods[n].Name] = true
	}
	for _, app := range h.kept {
		for _, p := range app.Pods {
			own[p.Name] = true
		}
	}
	others := map[string]int{}
	for _, d := range list {
		if d.Err == nil && !own[d.Name] {
			others[d.Name]++
		}
	}
	if len(others) > 0 {
		t.Errorf("answered by others than the unit's pods, which served all along: %v", others)
	}
}

// heldAndLetGo: without a hold the test shows nothing, and no hold stays.
func (h *healing) heldAndLetGo(t *testing.T, node string) {
	t.Helper()
	if log := c.Nodes[node].Agent.Log()[h.said[node]:]; !strings.Contains(log, "endpoints are held as they were") {
		t.Errorf("the agent of %s held nothing, so this shows nothing:\n%s", node, log)
	}
	wait.Eventually(t, func() error {
		out, err := c.Nodes[node].Run("status")
		if err == nil && strings.Contains(string(out), "\nheld ") {
			err = fmt.Errorf("%s still holds:\n%s", node, out)
		}
		return err
	})
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
