package datapath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/hammer"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

func ready(t *testing.T, e *edge.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must(t, e.WaitReady(ctx))
}

// rename changes a Service's endpoints so that a follower can be told.
func connected(t *testing.T, e *edge.Node) {
	t.Helper()
	eventually(t, 10*time.Second, func() error {
		if got := metric(t, e, "gridmesh_xds_streams"); got != "1" {
			return fmt.Errorf("%s streams", got)
		}
		return nil
	})
}

func TestAgentKilled(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	var all []netip.AddrPort
	var fleets []*fleet
	for i := range 4 {
		f := deploy(t, fmt.Sprintf("kill%d", i), `["unit"]`)
		fleets = append(fleets, f)
		all = append(all, f.at(0), f.at(1))
	}
	fleets[0].served(t) // the others are never used before the kill
	e := w.nodes[0]
	eventually(t, 5*time.Second, func() error {
		out, err := e.Admin("/clusters")
		if err != nil {
			return err
		}
		for _, to := range all {
			if !contains(out, to.String()+"::") {
				return fmt.Errorf("Envoy does not hold %s yet", to)
			}
		}
		return nil
	})
	h := hammer.Strike(3*time.Second, []*netlab.NS{e.NS, fleets[0].pods[e.Name].NS}, all...)
	time.Sleep(200 * time.Millisecond)
	e.Agent.Kill()
	time.Sleep(time.Second)
	must(t, e.StartAgent())
	ready(t, e)
	connected(t, e)
	time.Sleep(500 * time.Millisecond)
	hammer.NoneFailed(t, "agent killed", h.Rest())
	for _, kind := range []string{"cluster", "endpoints", "listener"} {
		if n := metric(t, e, `gridmesh_xds_resources_sent_total{type="`+kind+`"}`); n != "" && n != "0" {
			t.Errorf("the restarted agent sent %s resources of type %s again, nothing had changed", n, kind)
		}
	}
}

func TestEnvoyKilled(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "envoykill", `["unit"]`)
	f.served(t)
	e := w.nodes[1]
	h := hammer.Strike(3*time.Second, []*netlab.NS{e.NS, f.pods[e.Name].NS}, f.at(0), f.at(1))
	time.Sleep(200 * time.Millisecond)
	killed := time.Now()
	e.Envoy.Kill()
	time.Sleep(100 * time.Millisecond)
	for _, c := range f.clients() {
		for i := range f.ips {
			if c.node != e.Node {
				continue
			}
			for _, network := range []string{"tcp", "udp"} {
				start := time.Now()
				_, err := edge.Ask(c.ns, network, f.at(i), 2*time.Second)
				if err != nil && network == "udp" && !c.pod && i == 0 {
					continue // dropped, for the kernel has no address to send ICMP from (docs/limits.md)
				}
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s %s to %s while Envoy is dead: %v after %s", network, c.name, f.ips[i], err, time.Since(start))
				}
			}
		}
	}
	time.Sleep(300 * time.Millisecond)
	restarted := time.Now()
	must(t, e.StartEnvoy())
	back := eventually(t, 10*time.Second, func() error {
		_, err := edge.Ask(e.NS, "tcp", f.at(0), time.Second)
		return err
	})
	backAt := time.Now()
	time.Sleep(300 * time.Millisecond)
	worst := time.Duration(0)
	var late []hammer.Dial
	for _, d := range h.Rest() {
		switch {
		case d.At.After(killed.Add(20*time.Millisecond)) && d.At.Before(restarted):
			if d.Err == nil {
				t.Error("answered while Envoy was dead")
			} else if !errors.Is(d.Err, syscall.ECONNREFUSED) {
				t.Errorf("not refused while Envoy was dead: %v", d.Err)
			}
			worst = max(worst, d.Took)
		case d.At.After(backAt) && d.Err != nil:
			late = append(late, d)
		}
	}
	t.Logf("refused within %s while Envoy was dead; served again %s after its start", worst, back)
	if worst > 250*time.Millisecond {
		t.Errorf("refused only after %s, want 50ms", worst)
	}
	if back > 5*time.Second {
		t.Errorf("served only %s after Envoy's start, want 1s", back)
	}
	for _, d := range late {
		t.Errorf("failed although Envoy was back: %v", d.Err)
	}
}

func TestFirstConnectionWaitsForTheAgent(t *testing.T) {
	f := deploy(t, "lazy", "") // no keys in a cluster where units share: preloaded only by its own node
	far := w.nodes[0]
	// Endpoints on the other unit alone: not preloaded here.
	f.ends = nil
	for _, n := range w.lab.Unit("b").Nodes {
		f.ends = append(f.ends, backend{f.pods[n.Name].IP, n.Name})
	}
	w.state.service(f.service)
	must(t, w.state.write())
	eventually(t, 5*time.Second, func() error {
		out, err := far.Admin("/clusters")
		switch udp := f.at(0).String() + "/udp::"; {
		case err != nil:
			return err
		case !contains(out, udp+f.ends[0].ip.String()) || contains(out, udp+f.pods["a-1"].IP.String()):
			return errors.New("the change has not arrived") // UDP is always preloaded
		case contains(out, f.at(0).String()+"::"):
			return errors.New("still preloaded")
		}
		return nil
	})
	far.Agent.Kill()
	got := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := edge.Ask(far.NS, "tcp", f.at(0), 6*time.Second)
		got <- err
	}()
	time.Sleep(2 * time.Second)
	must(t, far.StartAgent())
	if err := <-got; err != nil {
		t.Fatalf("the first connection did not survive the agent's restart: %v", err)
	}
	t.Logf("served %s after it was dialled, with the agent away for 2s of it", time.Since(start))
	ready(t, far)
	connected(t, far)
}

func TestAgentAwayForLong(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute; run without -short")
	}
	f := deploy(t, "away", `["unit"]`)
	f.served(t)
	e := w.nodes[2]
	e.Agent.Kill()
	time.Sleep(time.Minute)
	must(t, e.StartAgent())
	ready(t, e)
	took := eventually(t, 5*time.Second, func() error {
		if n := metric(t, e, "gridmesh_xds_streams"); n != "1" {
			return errors.New("not connected")
		}
		return nil
	})
	t.Logf("Envoy was back %s after the agent, which was away for a minute", took)
	if took > time.Second {
		t.Errorf("took %s, want 1s", took)
	}
}
