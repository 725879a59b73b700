// Package hammer dials Services again and again while something is done to
// what serves them.
package hammer

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// every is how long a place rests between two dials, and fewest how many
// dials tell anything.
const (
	every  = 2 * time.Millisecond
	fewest = 20
)

// Dial is one connection.
type Dial struct {
	At   time.Time
	Took time.Duration
	Name string // of who answered
	Err  error
}

// Hammer dials until it rests.
type Hammer struct {
	stop  chan struct{}
	wg    sync.WaitGroup
	mu    sync.Mutex
	dials []Dial
}

// Strike starts dialling every address in turn, from every namespace at once.
func Strike(timeout time.Duration, from []*netlab.NS, to ...netip.AddrPort) *Hammer {
	h := &Hammer{stop: make(chan struct{})}
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
				h.dials = append(h.dials, Dial{start, time.Since(start), a.Name, err})
				h.mu.Unlock()
				time.Sleep(every)
			}
		})
	}
	return h
}

// Rest ends the hammer and returns what it did.
func (h *Hammer) Rest() []Dial {
	close(h.stop)
	h.wg.Wait()
	return h.dials
}

// Failed are the dials that failed.
func Failed(list []Dial) (failed []Dial) {
	for _, d := range list {
		if d.Err != nil {
			failed = append(failed, d)
		}
	}
	return failed
}

// Slow are the dials that took longer.
func Slow(list []Dial, than time.Duration) (slow []Dial) {
	for _, d := range list {
		if d.Took > than {
			slow = append(slow, d)
		}
	}
	return slow
}

// NoneFailed reports how many dials there were and fails on any that failed.
func NoneFailed(t *testing.T, what string, list []Dial) {
	t.Helper()
	failed := Failed(list)
	t.Logf("%s: %d connections, %d failed, %d took more than 10 ms", what, len(list), len(failed), len(Slow(list, 10*time.Millisecond)))
	if len(list) < fewest {
		t.Fatalf("%s: only %d connections were tried", what, len(list))
	}
	for i, d := range failed {
		if i < 5 {
			t.Errorf("%s: failed after %s: %v", what, d.Took, d.Err)
		}
	}
}
