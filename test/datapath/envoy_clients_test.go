package datapath

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// soon is how long others who found Envoy full may wait to be served: the agent
// counts each second at least, and has to find time for it.
const soon = 20 * time.Second

// A pod that opens connections as fast as it can gets its share of what Envoy
// takes, and is refused more, at once; everybody else goes on being served. It
// is served again when it has closed some. Both with tproxy and redirected.
//
// What it opens until it is counted comes to its share. On a machine that opens
// faster than the agent counts that is all: then others fail until it is closed.
func TestOnePodDoesNotTakeAllConnections(t *testing.T) {
	for what, node := range map[string]string{"routed": "a-1", "redirected": "b-3"} {
		t.Run(what, func(t *testing.T) {
			leaks.None(t, w.lab, leaks.Services)
			f := deploy(t, "greedy", `["unit"]`)
			f.served(t)
			e := named(t, node)
			const heap, most = 192, 192 << 20 / 2 / (20 << 10) // MiB, connections
			limitHeap(t, e, heap)
			other, err := e.AddPod("greedy-other")
			must(t, err)
			t.Cleanup(func() { must(t, other.Remove()) })
			for _, ns := range []*netlab.NS{other.NS, e.NS} {
				wait.Eventually(t, func() error {
					_, err := edge.Ask(ns, "tcp", f.at(0), time.Second)
					return err
				})
			}
			before := metric(t, e, "gridmesh_client_connections_closed_total")
			dials := load.Start(t, []*netlab.NS{other.NS, e.NS}, f.at(0))

			held, _ := greedy(t, f.pods[node].NS, f, 2*most)
			held = append(held, refusedMore(t, f.pods[node].NS, f)...)
			if len(held) < most/4 {
				t.Fatalf("one pod came to %d connections of %d, want a quarter at least", len(held), most)
			}
			wait.Eventually(t, func() error {
				over, err := readMetric(e, "gridmesh_clients_over_share")
				must(t, err)
				n, err := readMetric(e, "gridmesh_client_connections_refused_total")
				must(t, err)
				if over != "1" || n == "0" {
					return fmt.Errorf("%s clients over their share, %s attempts refused", over, n)
				}
				return nil
			})
			held = left(t, held, most/4, most*9/10)
			for _, ns := range []*netlab.NS{other.NS, e.NS} {
				wait.Within(t, soon, func() error {
					_, err := edge.Ask(ns, "tcp", f.at(0), time.Second)
					return err
				})
			}
			since := time.Now()
			dials.More(t, 20)
			list := dials.Stop()
			if after := metric(t, e, "gridmesh_client_connections_closed_total"); after != before {
				t.Logf("Envoy was full before the pod was counted: closed %s connections, %s before; %d dials of others failed", after, before, len(load.Failed(list)))
				list = slices.DeleteFunc(list, func(d load.Dial) bool { return d.At.Before(since) })
			}
			load.NoneFailed(t, "others", list)

			for _, conn := range held[most/10:] {
				must(t, conn.Close())
			}
			wait.Eventually(t, func() error {
				_, err := edge.Ask(f.pods[node].NS, "tcp", f.at(0), time.Second)
				return err
			})
		})
	}
}

// A pod that takes all of Envoy's connections before anybody counts keeps its
// share of them, and is refused more; others are served again soon, and not
// only when the pod likes. Here nobody counts, for the agent is stopped.
func TestABurstIsClosedAgain(t *testing.T) {
	for what, node := range map[string]string{"routed": "a-1", "redirected": "b-3"} {
		t.Run(what, func(t *testing.T) {
			leaks.None(t, w.lab, leaks.Services)
			f := deploy(t, "burst", `["unit"]`)
			f.served(t)
			e := named(t, node)
			const heap, most = 64, 64 << 20 / 2 / (20 << 10) // MiB, connections
			limitHeap(t, e, heap)
			pod := f.pods[node].NS
			other, err := e.AddPod("burst-other")
			must(t, err)
			t.Cleanup(func() { must(t, other.Remove()) })
			ask := func(ns *netlab.NS) error {
				_, err := edge.Ask(ns, "tcp", f.at(0), time.Second)
				return err
			}
			for _, ns := range []*netlab.NS{pod, other.NS, e.NS} {
				wait.Eventually(t, func() error { return ask(ns) })
			}
			before := metric(t, e, "gridmesh_client_connections_closed_total")
			e.Agent.Signal(syscall.SIGSTOP)
			t.Cleanup(func() { e.Agent.Signal(syscall.SIGCONT) })
			held, full := greedy(t, pod, f, 2*most)
			if err := ask(other.NS); len(held) < most*9/10 || full == nil || err == nil {
				t.Fatalf("one pod holds %d connections of %d and is told %v, another pod %v: that is not all of them", len(held), most, full, err)
			}
			e.Agent.Signal(syscall.SIGCONT)
			for _, ns := range []*netlab.NS{other.NS, e.NS} {
				wait.Within(t, soon, func() error { return ask(ns) })
			}
			if err := ask(pod); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("one more: %v", err)
			}
			held = left(t, held, most/4, most/4+1)
			if after := metric(t, e, "gridmesh_client_connections_closed_total"); after == before {
				t.Errorf("%s connections were closed, and %s before", after, before)
			}
			for _, conn := range held[most/10:] {
				must(t, conn.Close())
			}
			wait.Eventually(t, func() error { return ask(pod) })
		})
	}
}

// A pod that holds its share and is gone without a word leaves its address:
// who gets it next is served as soon as Envoy has asked its connections for a
// sign of life (render's clientKeepalive), and not after idleTimeout.
func TestADeadPodLeavesItsAddress(t *testing.T) {
	leaks.None(t, w.lab, leaks.Services)
	f := deploy(t, "heir", `["unit"]`)
	f.served(t)
	e := named(t, "a-1")
	const heap, most = 64, 64 << 20 / 2 / (20 << 10) // MiB, connections
	limitHeap(t, e, heap)
	dead, err := e.AddPod("heir-dead")
	must(t, err)
	wait.Eventually(t, func() error {
		_, err := edge.Ask(dead.NS, "tcp", f.at(0), time.Second)
		return err
	})
	held, _ := greedy(t, dead.NS, f, 2*most)
	held = append(held, refusedMore(t, dead.NS, f)...)
	if len(held) < most/4 {
		t.Fatalf("one pod came to %d connections of %d, want a quarter at least", len(held), most)
	}

	heir, err := dead.Replace("heir-next")
	must(t, err)
	t.Cleanup(func() { must(t, heir.Remove()) })
	if heir.IP != dead.IP {
		t.Fatalf("the next pod has %s, not %s", heir.IP, dead.IP)
	}
	if _, err := edge.Ask(heir.NS, "tcp", f.at(0), time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("beside %d connections of the pod before: %v", len(held), err)
	}
	wait.Within(t, 2*time.Minute, func() error {
		_, err := edge.Ask(heir.NS, "tcp", f.at(0), time.Second)
		return err
	})
}

// greedy opens connections from several threads until some are refused, or
// there are as many as most; they stay until the end of the test.
func greedy(t *testing.T, ns *netlab.NS, f *fleet, most int) (held []net.Conn, refused error) {
	t.Helper()
	t.Cleanup(func() {
		for _, conn := range held {
			_ = conn.Close() // some are closed already
		}
	})
	const threads = 8
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			for range most / threads {
				conn, err := open(ns, f)
				mu.Lock()
				if err != nil {
					refused = err
					mu.Unlock()
					return
				}
				held = append(held, conn)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return held, refused
}

// refusedMore opens connections until one is refused at once, as a client's over
// its share are, and returns those that were opened until then; they stay until the
// end of the test.
func refusedMore(t *testing.T, ns *netlab.NS, f *fleet) (held []net.Conn) {
	t.Helper()
	t.Cleanup(func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	})
	wait.Eventually(t, func() error {
		conn, err := open(ns, f)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil
		case err == nil:
			held = append(held, conn)
			return fmt.Errorf("it was given %d more", len(held))
		}
		return fmt.Errorf("it is not refused, but has no answer: %w", err)
	})
	return held
}

// left waits until no more than most of these connections are open, and returns
// them; fewest have to stay open.
func left(t *testing.T, held []net.Conn, fewest, most int) (open []net.Conn) {
	t.Helper()
	wait.Eventually(t, func() error {
		open = slices.DeleteFunc(slices.Clone(held), func(conn net.Conn) bool {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := conn.Read(make([]byte, 1)) // nobody sends anything
			return !errors.Is(err, os.ErrDeadlineExceeded)
		})
		if len(open) > most {
			return fmt.Errorf("%d of %d are open, want %d at most", len(open), len(held), most)
		}
		return nil
	})
	t.Logf("%d connections of %d are open still", len(open), len(held))
	if len(open) < fewest {
		t.Fatalf("that is less than %d", fewest)
	}
	return open
}
