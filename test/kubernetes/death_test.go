package kubernetes

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// With the cloud cut off: the agent is killed in a connect loop, Envoy follows
// it when it is back, and a node that dies silently costs no connection.
func TestDeathsWithoutCloud(t *testing.T) {
	leaks.None(t, c.Lab, leaks.Any)
	a := deploy(t, "deaths")
	a.closedEverywhere(t)
	n, pod := c.Nodes["a-1"], a.ns(t, "a-1")
	uses := func() error {
		for i := range a.svc.Spec.ClusterIPs {
			used := map[string]bool{}
			for range 10 {
				got, err := ask(pod, "tcp", a.at(i))
				if err != nil {
					return err
				}
				used[a.nodeOf(got.Name)] = true
			}
			if !used["a-1"] || !used["a-2"] {
				return fmt.Errorf("not both of a-1 and a-2 are used for %s: %v", a.at(i), used)
			}
		}
		return nil
	}
	wait.Eventually(t, uses) // as readiness comes to every node by itself
	u := c.Lab.Unit("a")
	must(t, u.CutUplink())
	t.Cleanup(func() { must(t, u.HealUplink()) })

	from := []*netlab.NS{n.NS, pod}
	dials := load.Start(t, from, a.at(0), a.at(1))
	for range 3 {
		n.Agent.Signal(syscall.SIGKILL)
		dials.More(t, 50)
		must(t, n.StartAgent())
		dials.More(t, 50) // and killed again, wherever it has come to
	}
	load.NoneFailed(t, "agent killed three times", dials.Stop())

	wait.Eventually(t, n.ServesByEnvoy) // the kernel, which served meanwhile, does not know who is dead
	dead := c.Lab.Node("a-2")
	must(t, dead.Cut())
	t.Cleanup(func() { must(t, dead.Heal()) })
	dials = load.Start(t, from, a.at(0), a.at(1))
	time.Sleep(6 * time.Second) // thrice the time after which a dead endpoint is tried again
	dials.More(t, 20)
	list := dials.Stop()
	load.NoneFailed(t, "node dead", list)
	if len(load.Slow(list, 10*time.Millisecond)) == 0 {
		t.Error("no connection tried the dead node's endpoints first")
	}
	must(t, dead.Heal())
	took := wait.Within(t, 50*time.Second, uses)
	t.Logf("the dead node's endpoints are used again %s after it was back", took)
}
