package capture

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nl "github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// onPath is a view of the Service of behindEnvoy, all of it on one path.
func onPath(path topology.Datapath) *topology.View {
	c := newCluster()
	c.viewer = topology.NewViewer("n0", topology.Options{Datapath: path})
	return c.serve("web", "10.96.0.1", "10.244.0.6").view()
}

// A port whose connection Envoy ended by RST is served by the kernel where a view moves its frontend
// there, Envoy being as well as before: conntrack would know it for ten seconds more.
func TestAPortOfEnvoysIsServedWhereAViewMovesIt(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(*testing.T, *kernelLab) *Capture{
		"the same agent": func(_ *testing.T, l *kernelLab) *Capture { return l.Capture },
		"another": func(t *testing.T, l *kernelLab) *Capture {
			l.flows.stop()
			c := starting(t, l.cfg, l.host)
			must(t, c.EnvoyAbsent(false))
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, to, from := behindEnvoy(t)
			apply(t, l.Capture, onPath(topology.DatapathEnvoy), false)
			l.envoy(t, resetting)
			for ip, ns := range from {
				conn, answer := dial(t, ns, "tcp", ip+":40001", to, 5*time.Second)
				if answer != "envoy" {
					t.Fatalf("%s: %q, want Envoy's answer", ip, answer)
				}
				isReset(conn)
			}
			start := time.Now()
			apply(t, next(t, l), onPath(topology.DatapathKernel), false)
			for ip, ns := range from {
				took := servedAgain(t, ns, ip+":40001", to)
				t.Logf("%s: served %s after its turn, %s after the view", ip, took, time.Since(start).Round(time.Millisecond))
				if time.Since(start) > 5*time.Second {
					t.Errorf("%s: served %s after the view: conntrack forgets it by itself after ten seconds", ip, time.Since(start))
				}
			}
		})
	}
}

// What is looked for is what went to the kernel within the last minute: neither what comes back to
// Envoy, nor what is gone, nor what was always the kernel's.
func TestWhatMovedIsLookedForAMinute(t *testing.T) {
	k := newKernelPath(kernelConfig(), nil)
	k.planner.Set("default/web", []plan.KernelFrontend{{Frontend: tcp("10.96.0.1:80")}, {Frontend: tcp("10.96.0.2:80")}})
	k.planner.Settle()
	list := func(addrs ...string) (list []topology.Frontend) {
		for _, a := range addrs {
			list = append(list, tcp(a))
		}
		return list
	}
	now := time.Now()
	check := func(what string, now time.Time, want ...string) {
		t.Helper()
		got := k.movedSince(now)
		if len(got) != len(want) {
			t.Errorf("%s: %v is looked for, want %v", what, got, want)
		}
		for _, f := range got {
			if !strings.Contains(strings.Join(want, " "), netip.AddrPortFrom(f.Addr, f.Port).String()) {
				t.Errorf("%s: %v is looked for, want %v", what, f, want)
			}
		}
	}
	if left, back := k.moves(list("10.96.0.1:80", "10.96.0.9:80"), nil, now); !left || back {
		t.Errorf("moved %v, back %v; want the frontend that the kernel serves moved", left, back)
	}
	check("one moved, one gone", now, "10.96.0.1:80")
	k.moves(list("10.96.0.2:80"), nil, now.Add(30*time.Second))
	check("another half a minute later", now.Add(59*time.Second), "10.96.0.1:80", "10.96.0.2:80")
	check("the first is over", now.Add(61*time.Second), "10.96.0.2:80")
	if left, back := k.moves(nil, list("10.96.0.2:80"), now.Add(62*time.Second)); left || !back {
		t.Errorf("moved %v, back %v; want it back with Envoy", left, back)
	}
	check("the other is back", now.Add(62*time.Second))
}

// Looks for what moved end when the last of it is over, Repair or not.
func TestLooksForWhatMovedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(kernelConfig(), testHost(t))
		must(t, err)
		looks := 0
		c.flows.dial = func() (*nl.Conn, error) { return nltest.Dial(nil), nil }
		c.flows.abandoned.forget = countLooks(&looks)
		c.kernel.planner.Set("default/web", []plan.KernelFrontend{{Frontend: tcp("10.96.0.1:80")}})
		c.kernel.planner.Settle()
		c.noteMoved([]topology.Frontend{tcp("10.96.0.1:80")}, nil)
		time.Sleep(movedFor + abandonedLong)
		synctest.Wait()
		during := looks
		time.Sleep(time.Hour)
		if looks != during || looks < 10 {
			t.Errorf("%d looks within the time, and %d later; want some, and none", during, looks-during)
		}
		c.flows.stop()
	})
}

func countLooks(n *int) func(context.Context, *nl.Conn, envoys) (bool, error) {
	return func(context.Context, *nl.Conn, envoys) (bool, error) { *n++; return false, nil }
}
