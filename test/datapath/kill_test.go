package datapath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

func ready(t *testing.T, e *edge.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	must(t, e.WaitReady(ctx))
}

// connected waits until a node's Envoy has its stream to the agent.
func connected(t *testing.T, e *edge.Node) {
	t.Helper()
	wait.Eventually(t, func() error { return hasStream(e) })
}

func hasStream(e *edge.Node) error {
	got, err := readMetric(e, "gridmesh_xds_streams")
	if err == nil && got != "1" {
		err = fmt.Errorf("%q streams", got)
	}
	return err
}

// A node that has Envoy alone is unhealthy while its Envoy is dead, and no restart of the
// agent would cure that.
func TestHealthFollowsEnvoy(t *testing.T) {
	e := named(t, "a-1")
	says := func(path, want string) error {
		got, err := edge.Get(e.NS, "127.0.0.1:10256", path)
		if said := fmt.Sprint(got, err); !strings.Contains(said, want) {
			return fmt.Errorf("%s says %s: want %q", path, said, want)
		}
		return nil
	}
	must(t, says("/healthz", `"healthy":true`))
	e.Envoy.Kill()
	t.Logf("unhealthy after %s", wait.Eventually(t, func() error { return says("/healthz", `"healthy":false`) }))
	must(t, errors.Join(says("/readyz", `"healthy":false`), says("/livez", `"healthy":true`)))
	must(t, e.StartEnvoy())
	t.Logf("healthy again after %s", wait.Eventually(t, func() error { return says("/healthz", `"healthy":true`) }))
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
	wait.Eventually(t, func() error {
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
	dials := load.Start(t, []*netlab.NS{e.NS, fleets[0].pods[e.Name].NS}, all...)
	dials.More(t, 20)
	e.Agent.Kill()
	time.Sleep(time.Second) // the agent is away for a second
	must(t, e.StartAgent())
	ready(t, e)
	connected(t, e)
	dials.More(t, 50)
	load.NoneFailed(t, "agent killed", dials.Stop())
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
	dials := load.Start(t, []*netlab.NS{e.NS, f.pods[e.Name].NS}, f.at(0), f.at(1))
	dials.More(t, 20)
	e.Envoy.Kill() // and waits for its end
	killed := time.Now()
	for _, c := range f.clients() {
		for i := range f.ips {
			if c.node != e.Node {
				continue
			}
			for _, network := range []string{"tcp", "udp"} {
				if network == "udp" && !c.pod && i == 0 {
					continue // dropped, for the kernel has no address to send ICMP from (docs/limits.md)
				}
				start := time.Now()
				_, err := edge.Ask(c.ns, network, f.at(i), answers)
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s %s to %s while Envoy is dead: %v after %s", network, c.name, f.ips[i], err, time.Since(start))
				}
			}
		}
	}
	dials.More(t, 50)
	restarted := time.Now()
	must(t, e.StartEnvoy())
	back := wait.Within(t, 25*time.Second, func() error {
		_, err := edge.Ask(e.NS, "tcp", f.at(0), time.Second)
		return err
	})
	f.served(t) // its listeners come one by one
	backAt := time.Now()
	dials.More(t, 50)
	worst := time.Duration(0)
	var late []load.Dial
	for _, d := range dials.Stop() {
		switch {
		case d.At.After(killed) && d.End().Before(restarted):
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
	if worst > firstPacket {
		t.Errorf("refused only after %s", worst)
	}
	for _, d := range late {
		t.Errorf("failed although Envoy was back: %v", d.Err)
	}
}

// Envoy holds a connection for 5 s whose Service it has to ask the agent for. In that time it
// needs its stream, and the answer; a machine that gives it neither shows nothing.
const (
	hold   = 5 * time.Second
	inTime = hold - time.Second
)

// The first connection to a Service waits for an agent that is being started.
func TestFirstConnectionWaitsForTheAgent(t *testing.T) {
	const rounds = 5
	for round := range rounds {
		stream, err := firstConnection(t, fmt.Sprint("lazy", round))
		switch {
		case err == nil:
			return
		case stream < inTime:
			t.Fatalf("the first connection did not survive the agent's restart, though Envoy had its stream %s after it was dialled: %v", stream, err)
		}
		t.Logf("round %d shows nothing: Envoy had its stream only %s after the dial: %v", round, stream, err)
	}
	t.Fatalf("in none of %d rounds had Envoy its stream within %s of the dial", rounds, inTime)
}

// firstConnection dials a new Service, that is nobody's to preload, while the agent starts. It
// returns within which time of the dial Envoy had its stream to the agent, and what came of the dial.
func firstConnection(t *testing.T, name string) (stream time.Duration, err error) {
	t.Helper()
	f := deploy(t, name, "") // no keys in a cluster where units share: preloaded only by its own node
	far := w.nodes[0]
	// Endpoints on the other unit alone: not preloaded here.
	f.ends = nil
	for _, n := range w.lab.Unit("b").Nodes {
		f.ends = append(f.ends, backend{f.pods[n.Name].IP, n.Name})
	}
	w.state.service(f.service)
	must(t, w.state.write())
	wait.Eventually(t, func() error {
		out, err := far.Admin("/clusters")
		switch view := inspect(t, far, "view"); {
		case err != nil:
			return err
		case !contains(view, f.ends[0].ip.String()) || contains(view, f.pods["a-1"].IP.String()):
			return errors.New("the change has not arrived")
		case contains(out, f.at(0).String()+"::"):
			return errors.New("still preloaded")
		}
		return nil
	})
	starts := startsLate(t, far)
	got := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := edge.Ask(far.NS, "tcp", f.at(0), answers)
		got <- err
	}()
	const away = 500 * time.Millisecond // at least; the agent's start comes to it
	if !starts {
		time.Sleep(away)
		must(t, far.StartAgent())
	}
	connected(t, far)
	stream = time.Since(start)
	err = <-got
	t.Logf("Envoy had its stream %s after the dial, which ended %s after it", stream, time.Since(start))
	ready(t, far)
	return stream, err
}

// startsLate kills a node's agent. Where one takes longer than half of what Envoy holds a
// connection to start, its start goes first: it is started, and the other half is left of it.
func startsLate(t *testing.T, e *edge.Node) (starts bool) {
	t.Helper()
	e.Agent.Signal(syscall.SIGTERM)
	start := time.Now()
	must(t, e.StartAgent())
	connected(t, e)
	took := time.Since(start)
	e.Agent.Kill()
	for took > hold/2 {
		start = time.Now()
		must(t, e.StartAgent())
		time.Sleep(took - hold/2) // so long the agent is away already
		if hasStream(e) != nil {
			return true
		}
		took = time.Since(start) // it was quicker this time
		e.Agent.Kill()
	}
	return false
}

// awayForLong ends a node's agent, and returns what starts it again and has Envoy back with it: half a
// minute later at the earliest, for by then a stock bootstrap rests for as long between two tries.
func awayForLong(t *testing.T, e *edge.Node) (back func()) {
	t.Helper()
	e.Agent.Kill()
	killed, isBack := time.Now(), false
	back = func() {
		if isBack {
			return
		}
		isBack = true
		time.Sleep(time.Until(killed.Add(30 * time.Second)))
		away := time.Since(killed)
		must(t, e.StartAgent())
		ready(t, e)
		// Half a second on a quiet machine; with Envoy's own pauses 25 s.
		took := wait.Within(t, 10*time.Second, func() error { return hasStream(e) })
		t.Logf("Envoy was back %s after the agent, which was away for %s", took, away.Round(time.Second))
	}
	t.Cleanup(back)
	return back
}
