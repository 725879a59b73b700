package kubernetes

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// closedEverywhere waits until every node and pod is answered by its own unit only.
func (a *app) closedEverywhere(t *testing.T) {
	t.Helper()
	for _, n := range served {
		for i := range a.svc.Spec.ClusterIPs {
			for _, network := range []string{"tcp", "udp"} {
				pod := a.ns(t, n.Name)
				wait.Eventually(t, func() error {
					_, err := ask(n.NS, network, a.at(i))
					return err
				})
				for range 8 {
					for _, ns := range []string{"host", "pod"} {
						from := n.NS
						if ns == "pod" {
							from = pod
						}
						got, err := ask(from, network, a.at(i))
						if err != nil {
							t.Fatalf("%s of %s, %s: %v\n%s", ns, n.Name, network, err, envoyOf(n, a.svc.Spec.ClusterIPs[i]))
						}
						if node := a.nodeOf(got.Name); c.Nodes[node] == nil || c.Nodes[node].Unit != n.Unit {
							t.Fatalf("%s of %s, %s: answered by %s on %s", ns, n.Name, network, got.Name, node)
						}
					}
				}
			}
		}
	}
}

// envoyOf is what a node's Envoy says of an address, and of what it could not do, for who looks for a
// dial that failed.
func envoyOf(n *cluster.Node, ip string) string {
	var said []string
	for _, path := range []string{"/clusters", "/stats?usedonly&filter=(on_demand|cx_none_healthy|cx_no_route|connect_fail|cx_connect_timeout|pending_overflow|cx_overflow)"} {
		text, err := n.Admin(path)
		if err != nil {
			said = append(said, fmt.Sprint(path, ": ", err))
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, ip) || path != "/clusters" {
				said = append(said, strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(said, "\n")
}

func TestClosedLoop(t *testing.T) {
	leaks.None(t, c.Lab, leaks.Any)
	a := deploy(t, "closed")
	a.closedEverywhere(t)
	for _, n := range served {
		must(t, edge.Transfer(a.ns(t, n.Name), a.at(0), 1<<20, time.Minute))
		must(t, edge.Transfer(a.ns(t, n.Name), a.at(1), 1<<20, time.Minute))
	}
}

func TestLabelChange(t *testing.T) {
	a := deploy(t, "label")
	a.closedEverywhere(t)
	n := c.Nodes["a-1"]
	_, err := c.Kubectl("label", "--overwrite", "node", n.Name, "unit=b")
	must(t, err)
	t.Cleanup(func() {
		_, err := c.Kubectl("label", "--overwrite", "node", n.Name, "unit=a")
		must(t, err)
	})
	took := wait.Eventually(t, func() error {
		for range 6 {
			got, err := ask(n.NS, "tcp", a.at(0))
			if err != nil {
				return err
			}
			if a.nodeOf(got.Name) == "a-2" {
				return fmt.Errorf("still answered by %s", got.Name)
			}
		}
		return nil
	})
	t.Logf("new connections followed %s after the label", took)
	wait.Eventually(t, func() error { // and the unit it left forgets it
		for range 6 {
			if got, err := ask(c.Nodes["a-2"].NS, "tcp", a.at(0)); err != nil || a.nodeOf(got.Name) != "a-2" {
				return fmt.Errorf("answered by %s: %w", got.Name, errors.Join(err, errWrong))
			}
		}
		return nil
	})
}

var errWrong = errors.New("want a-2")
