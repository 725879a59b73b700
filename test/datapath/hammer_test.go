package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// dial is one connection of a hammer.
type dial struct {
	at   time.Time
	took time.Duration
	name string
	err  error
}

// hammer dials again and again from one place until it is stopped.
type hammer struct {
	stop  chan struct{}
	wg    sync.WaitGroup
	mu    sync.Mutex
	dials []dial
}

// strike starts dialling every address in turn, from every namespace at once.
func strike(timeout time.Duration, from []*netlab.NS, to ...netip.AddrPort) *hammer {
	h := &hammer{stop: make(chan struct{})}
	for _, ns := range from {
		h.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-h.stop:
					return
				default:
				}
				start := time.Now()
				a, err := edge.Ask(ns, "tcp", to[i%len(to)], timeout)
				if err != nil {
					err = fmt.Errorf("%s to %s: %w", ns.Name, to[i%len(to)], err)
				}
				h.mu.Lock()
				h.dials = append(h.dials, dial{start, time.Since(start), a.Name, err})
				h.mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	return h
}

// rest ends the hammer and returns what it did.
func (h *hammer) rest() []dial {
	close(h.stop)
	h.wg.Wait()
	return h.dials
}

func failures(list []dial) (failed []dial) {
	for _, d := range list {
		if d.err != nil {
			failed = append(failed, d)
		}
	}
	return failed
}

// wantNoFailure reports how many dials there were and fails on any that failed.
func wantNoFailure(t *testing.T, list []dial) {
	t.Helper()
	failed := failures(list)
	t.Logf("%d connections, %d failed", len(list), len(failed))
	if len(list) < 20 {
		t.Fatalf("only %d connections were tried", len(list))
	}
	for i, d := range failed {
		if i < 5 {
			t.Errorf("failed after %s: %v", d.took, d.err)
		}
	}
}

// metric returns the value of a line of the agent's metrics.
func metric(t *testing.T, e *edge.Node, name string) string {
	t.Helper()
	text, err := e.Metrics()
	must(t, err)
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return value
		}
	}
	return ""
}
