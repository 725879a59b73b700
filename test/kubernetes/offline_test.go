package kubernetes

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// With the cloud cut off: pods die, agent and Envoy start again, and the unit
// goes on.
func TestRestartWithoutCloud(t *testing.T) {
	leaks.None(t, c.Lab, leaks.Any)
	a := deploy(t, "offline")
	a.closedEverywhere(t)
	for _, name := range []string{"a-1", "a-2"} {
		wait.Eventually(t, func() error { return c.Nodes[name].Kept(edge.AgentState, "default/offline", a.ips(t, "a-1", "a-2")...) })
	}
	u := c.Lab.Unit("a")
	must(t, u.CutUplink())
	t.Cleanup(func() { must(t, u.HealUplink()) })

	for _, kill := range []string{"agent", "Envoy", "both"} {
		t.Run(kill, func(t *testing.T) {
			for _, name := range []string{"a-1", "a-2"} {
				n := c.Nodes[name]
				if kill != "Envoy" {
					n.Agent.Signal(syscall.SIGKILL)
				}
				if kill != "agent" {
					n.Envoy.Signal(syscall.SIGKILL)
				}
				start := time.Now()
				if kill != "Envoy" {
					must(t, n.StartAgent())
				}
				if kill != "agent" {
					must(t, n.StartEnvoy())
				}
				for i := range a.svc.Spec.ClusterIPs {
					for _, network := range []string{"tcp", "udp"} {
						wait.Eventually(t, func() error {
							_, err := ask(n.NS, network, a.at(i))
							return err
						})
						for range 6 {
							got, err := ask(a.ns(t, name), network, a.at(i))
							if err != nil || !strings.HasPrefix(a.nodeOf(got.Name), "a-") {
								t.Errorf("%s %s: answered by %s on %s, %v", name, network, got.Name, a.nodeOf(got.Name), err)
							}
						}
					}
				}
				t.Logf("%s: everything served %s after the restart of %s without a cloud", name, time.Since(start).Round(time.Millisecond), kill)
			}
		})
	}
	must(t, u.HealUplink())
	wait.Eventually(t, func() error {
		for _, name := range []string{"a-1", "a-2"} {
			out, err := c.Nodes[name].Run("status")
			if err != nil {
				return err
			}
			if !strings.Contains(string(out), "live") {
				return fmt.Errorf("%s is not live again: %s", name, out)
			}
		}
		return nil
	})
}
