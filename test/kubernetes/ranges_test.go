package kubernetes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/topology"
)

// A ServiceCIDR in which the API server is, and no pod, is guarded by no node: each goes on to hear of changes,
// one that is started again meanwhile too, and so of the object's end. Nor is a tenant's Service that takes the
// API server's address of it, in which Kubernetes sees nothing wrong.
func TestAServiceCIDROverTheAPIServer(t *testing.T) {
	const name = "over-the-api-server"
	nodes := []string{"a-1", "b-1"}
	over := netip.PrefixFrom(c.APIServer().Addr(), 24).Masked()
	must(t, c.Apply(fmt.Sprintf("{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: %s}, spec: {cidrs: [%s]}}", name, over)))
	gone := false
	leave := func() {
		if !gone {
			_, err := c.Kubectl("delete", "--ignore-not-found", "service/"+name, "servicecidr/"+name)
			must(t, err)
			gone = true
		}
	}
	t.Cleanup(leave)
	found := func(node string, want bool) error {
		r, err := toldBy(c.Nodes[node].Node)
		if err != nil {
			return err
		}
		is := func(f finding) bool {
			return f.Kind == "service-cidr" && strings.Contains(f.Text, "is not in force") && strings.Contains(f.Text, "its API server")
		}
		if has := slices.ContainsFunc(r.Findings, is); has != want {
			return fmt.Errorf("the status of %s has the finding: %v, want %v: %v", node, has, want, r.Findings)
		}
		return nil
	}
	told := func(node string) error {
		r, err := toldBy(c.Nodes[node].Node)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(r.Problems, func(p topology.Problem) bool {
			return p.Object == "service default/"+name && strings.Contains(p.Text, "is an address of the API server")
		}) {
			return fmt.Errorf("the status of %s has no problem of the Service: %v", node, r.Problems)
		}
		return nil
	}
	heard := func(when string) {
		t.Helper()
		wait.Holds(t, 2*time.Second, func() error {
			for _, node := range nodes {
				if err := asksTheAPIServer(c.Nodes[node].NS); err != nil {
					return fmt.Errorf("%s, from %s, %s: %w", c.APIServer(), node, when, err)
				}
			}
			return nil
		})
	}
	for _, node := range nodes {
		took := wait.Eventually(t, func() error { return found(node, true) })
		t.Logf("%s has the finding after %s", node, took)
	}
	heard("with the object")
	// Kubernetes gives out addresses of the range once it has seen the object.
	wait.Eventually(t, func() error {
		return c.Apply(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {clusterIP: %s, ports: [{port: %d}]}}", name, c.APIServer().Addr(), c.APIServer().Port()))
	})
	for _, node := range nodes {
		took := wait.Eventually(t, func() error { return told(node) })
		t.Logf("%s tells of the Service after %s", node, took)
	}
	heard("with the Service")
	n := c.Nodes["a-1"]
	n.Agent.Kill()
	must(t, n.StartAgent())
	must(t, n.WaitReady(patient(t)))
	wait.Eventually(t, func() error { return errors.Join(found("a-1", true), told("a-1")) })
	heard("with a new agent")
	leave()
	for _, node := range nodes {
		took := wait.Eventually(t, func() error { return found(node, false) })
		t.Logf("the finding of %s is gone after %s", node, took)
	}
	heard("without the object")
}

func asksTheAPIServer(from *netlab.NS) error {
	return from.Do(func() error {
		conn, err := net.DialTimeout("tcp", c.APIServer().String(), 10*time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}
