package kubernetes

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/leaks"
)

// With the cloud cut off: pods die, agent and Envoy start again, and the unit
// goes on.
func TestRestartWithoutCloud(t *testing.T) {
	leaks.None(t, c.Lab, leaks.Any)
	a := deploy(t, "offline")
	a.closedEverywhere(t)
	time.Sleep(11 * time.Second) // one interval of the state file
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
						eventually(t, 15*time.Second, func() error {
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
	eventually(t, 60*time.Second, func() error {
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
