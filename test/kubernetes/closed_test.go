package kubernetes

import (
	"errors"
	"fmt"
	"testing"
	"time"

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
							t.Fatalf("%s of %s, %s: %v", ns, n.Name, network, err)
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
