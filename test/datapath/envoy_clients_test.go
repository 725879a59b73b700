package datapath

import (
	"errors"
	"fmt"
	"net"
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

// A pod that opens connections as fast as it can gets its share of what Envoy
// takes, and is refused more, at once; everybody else goes on being served. It
// is served again when it has closed some. Both with tproxy and redirected.
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
			dials := load.Start(t, []*netlab.NS{other.NS, e.NS}, f.at(0))

			held, refused := greedy(t, f.pods[node].NS, f, 2*most)
			t.Logf("one pod holds %d connections of %d", len(held), most)
			// What it opens until it is counted comes to its share.
			if len(held) < most/4 || len(held) > most*3/4 {
				t.Fatalf("one pod holds %d connections of %d, want a quarter and some", len(held), most)
			}
			if !errors.Is(refused, syscall.ECONNREFUSED) {
				t.Errorf("one more: %v", refused)
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
			load.NoneFailed(t, "others", dials.Stop())

			for _, conn := range held[:len(held)-most/10] {
				must(t, conn.Close())
			}
			wait.Eventually(t, func() error {
				_, err := edge.Ask(f.pods[node].NS, "tcp", f.at(0), time.Second)
				return err
			})
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
	held, refused := greedy(t, dead.NS, f, 2*most)
	if len(held) < most/4 || !errors.Is(refused, syscall.ECONNREFUSED) {
		t.Fatalf("one pod holds %d connections of %d, and then %v", len(held), most, refused)
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
