package health

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// c is the cluster of all tests here: a unit of three nodes, and one of two.
var c *cluster.Cluster

func TestMain(m *testing.M) {
	sandbox.Run(func() int {
		ctx, cancel := context.WithTimeout(context.Background(), 2*wait.Patience)
		defer cancel()
		r := netlab.Routed
		var err error
		c, err = cluster.Up(ctx, cluster.Config{
			Lab:          netlab.Config{Units: []netlab.UnitConfig{{Name: "a", Nodes: []netlab.PodNetwork{r, r, r}}, {Name: "b", Nodes: []netlab.PodNetwork{r, r}}}},
			Proxy:        map[string]string{"": "gridmesh"},
			NodeGrace:    50 * time.Second, // as Kubernetes has it: who votes has to be faster
			AgentFlagsOf: map[string][]string{"a-1": {"--dead-nodes-file", deadNodes("a-1")}},
			Say:          func(format string, args ...any) { fmt.Printf("cluster: "+format+"\n", args...) },
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	t.Cleanup(cancel)
	return ctx
}

// voter is a node's daemon.
type voter struct {
	*edge.Process
	node, state string
}

func (v *voter) start(t *testing.T) {
	t.Helper()
	p, err := c.Voter(patient(t), v.node, "--dead-nodes-file", deadNodes(v.node), "--state-file", v.state)
	must(t, err)
	v.Process = p
}

// voters starts a daemon on each node.
func voters(t *testing.T, nodes ...string) map[string]*voter {
	t.Helper()
	must(t, c.HealthRights())
	all, dir := map[string]*voter{}, t.TempDir()
	for _, name := range nodes {
		v := &voter{node: name, state: filepath.Join(dir, name+".unit")}
		v.start(t)
		all[name] = v
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the daemon of %s:\n%s", name, v.Log())
			}
			v.Kill()
		})
	}
	return all
}

// policies waits until the controller has installed what keeps a shielded node's pods, and
// holds votes.
func policies(t *testing.T) {
	t.Helper()
	wait.Eventually(t, func() error {
		out, err := c.Kubectl("get", "mutatingadmissionpolicybinding/gridmesh-shield-pods", "validatingadmissionpolicybinding/gridmesh-votes-lease-unit")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}

// controller starts gridmesh-controller, which keeps the shield.
func controller(t *testing.T) {
	t.Helper()
	must(t, c.HealthRights())
	config, err := c.ControllerKubeconfig()
	must(t, err)
	p, err := c.StartController(config, "--health-unit-key", cluster.UnitKey)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the controller:\n%s", p.Log())
		}
		p.Kill()
	})
}

// deadNodes is where a node's daemon tells whom the unit votes dead.
func deadNodes(node string) string { return filepath.Join(sandbox.Dir, "dead", node) }
