package datapath

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const connectTimeout = 300 * time.Millisecond

// With k endpoints of the unit dead in silence, no connection fails, the
// first is served within 2k connect timeouts (five times that on a busy
// machine), and traffic returns.
func TestSilentDeathFallsToTheNextTier(t *testing.T) {
	for _, k := range []int{1, 3, 10} {
		t.Run(fmt.Sprintf("k=%d", k), func(t *testing.T) {
			leaks.None(t, w.lab, leaks.Services)
			f := deploy(t, fmt.Sprintf("tiers%d", k), `["unit","*"]`)
			dying := w.lab.Node("a-2")
			f.ends = nil
			for i := range k {
				pod, err := dying.AddPod(fmt.Sprintf("%s-dying-%d", f.name, i))
				must(t, err)
				app, err := edge.StartApp(pod.NS, fmt.Sprintf("near-%d", i), 8080)
				must(t, err)
				t.Cleanup(func() { app.Stop(); must(t, pod.Remove()) })
				f.ends = append(f.ends, backend{pod.IP, dying.Name})
			}
			f.ends = append(f.ends, backend{f.pods["b-1"].IP, "b-1"}, backend{f.pods["b-2"].IP, "b-2"})
			w.state.service(f.service)
			must(t, w.state.write())
			from := f.pods["a-1"].NS
			wait.Eventually(t, func() error {
				a, err := edge.Ask(from, "tcp", f.at(0), time.Second)
				if err == nil && !strings.HasPrefix(a.Name, "near-") {
					err = fmt.Errorf("answered by %s", a.Name)
				}
				return err
			})
			for range 2 * k { // neighbours are known, so that death is silent
				_, err := edge.Ask(from, "tcp", f.at(0), answers)
				must(t, err)
			}
			must(t, w.lab.Unit("a").CutUplink())
			must(t, dying.Cut())
			t.Cleanup(func() { must(t, dying.Heal()); must(t, w.lab.Unit("a").HealUplink()) })

			bound := 2 * time.Duration(k) * connectTimeout
			first, err := edge.Ask(from, "tcp", f.at(0), 5*bound)
			must(t, err)
			t.Logf("first connection after the death: %s by %s, bound %s", first.Took, first.Name, bound)
			dials := load.Start(t, []*netlab.NS{from}, f.at(0))
			time.Sleep(4 * time.Second) // twice the time after which a dead endpoint is tried again
			dials.More(t, 20)
			load.NoneFailed(t, "after the first", dials.Stop())

			must(t, dying.Heal())
			back := wait.Within(t, 50*time.Second, func() error {
				a, err := edge.Ask(from, "tcp", f.at(0), 5*bound)
				if err == nil && !strings.HasPrefix(a.Name, "near-") {
					err = fmt.Errorf("answered by %s", a.Name)
				}
				return err
			})
			t.Logf("traffic was back in its tier %s after the node", back)
		})
	}
}

// One refused connect does not make a Service with one endpoint dark.
func TestRefusedConnectDoesNotDarken(t *testing.T) {
	f := deploy(t, "single", `["unit"]`)
	f.ends = []backend{{f.pods["a-1"].IP, "a-1"}}
	w.state.service(f.service)
	must(t, w.state.write())
	from := f.pods["a-2"].NS
	wait.Eventually(t, func() error {
		a, err := edge.Ask(from, "tcp", f.at(0), time.Second)
		if err == nil && a.Name != "single-a-1" {
			err = fmt.Errorf("answered by %s", a.Name)
		}
		return err
	})
	f.apps["a-1"].Stop()
	if _, err := edge.Ask(from, "tcp", f.at(0), answers); err == nil {
		t.Fatal("answered by a stopped server")
	}
	app, err := edge.StartApp(f.pods["a-1"].NS, "single-a-1", 8080)
	must(t, err)
	t.Cleanup(app.Stop)
	a, err := edge.Ask(from, "tcp", f.at(0), answers)
	if err != nil {
		t.Fatalf("dark after one refused connection: %v", err)
	}
	t.Logf("served %s after the server was back", a.Took)
}

// A kept source, a tunnel's MTU on the way, and megabytes both ways: ICMP
// "fragmentation needed" must find the proxy's socket.
func TestMTUOfALinkBetweenUnits(t *testing.T) {
	f := deploy(t, "mtu", `["unit","*"]`)
	f.ends = nil
	for _, n := range w.lab.Unit("b").Nodes {
		f.ends = append(f.ends, backend{f.pods[n.Name].IP, n.Name}, backend{f.pods[n.Name].IP6, n.Name})
	}
	w.state.service(f.service)
	must(t, w.state.write())
	for _, c := range f.clients() {
		if c.node.Unit.Name != "a" {
			continue
		}
		for i, ip := range f.ips {
			wait.Eventually(t, func() error {
				a, err := edge.Ask(c.ns, "tcp", f.at(i), time.Second)
				if err == nil && !strings.HasPrefix(a.Name, "mtu-b-") {
					err = fmt.Errorf("answered by %s", a.Name)
				}
				return err
			})
			if err := edge.Transfer(c.ns, f.at(i), megabyte, time.Minute); err != nil {
				t.Errorf("%s to %s: %v", c.name, ip, err)
			}
		}
	}
}
