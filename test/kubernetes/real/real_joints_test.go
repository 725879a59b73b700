package real

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// Endpoints in their node's own network serve pods of every node, also those
// of the same node: in unit b they are all there is. Each has the name of its
// machine, which is none of another's.
func TestHostNetworkEndpoints(t *testing.T) {
	needReal(t)
	deployed(t)
	const port = 18080
	from, to := deploy(t, "asking", 8080, false), deploy(t, "hosted", port, true)
	served(t, from, to)
	for name, n := range c.Nodes {
		wait.Eventually(t, func() error {
			got, err := edge.Ask(n.NS, "tcp", netip.AddrPortFrom(n.IP, port), answered)
			if err == nil && got.Name != name {
				err = fmt.Errorf("a pod in the network of %s says that its host is %q", name, got.Name)
			}
			return err
		})
	}
}

// A stand-in node joins real ones: deploy/ comes to it, too, and pods of both
// kinds of nodes answer each other.
func TestBothKindsOfNodes(t *testing.T) {
	needReal(t)
	start := time.Now()
	must(t, c.Join(patient(t), standIn))
	t.Cleanup(func() { must(t, c.Part(patient(t), standIn)) })
	deployed(t)
	a := deploy(t, "both", 8080, false)
	served(t, a, a)
	for _, node := range []string{"b-1", standIn} {
		by := map[string]bool{}
		wait.Eventually(t, func() error {
			maps.Copy(by, servedOn(t, node, a, a))
			if len(by) < 2 {
				return fmt.Errorf("pods of %s are answered by %v alone", node, by)
			}
			return nil
		})
	}
	t.Logf("it took %s", time.Since(start).Round(10*time.Millisecond))
}
