// Package load dials Services again and again while something is done to what
// serves them.
package load

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// every is how long a client rests between two dials, sparsely how long one of Sparse does, and
// fewest how many dials prove anything.
const (
	every    = 2 * time.Millisecond
	sparsely = 10 * time.Millisecond
	fewest   = 20
)

// Timeout is when a dial has failed: five times the slowest that is known and
// is answered, 4.4 s through ten endpoints that are dead at once. While agents
// and Envoys are killed it is 0.3 s, on one core with race detectors.
const Timeout = 22 * time.Second

// Dial is one connection.
type Dial struct {
	At   time.Time
	Took time.Duration
	Name string // of who answered
	Err  error
}

// End is when it was answered, or failed.
func (d Dial) End() time.Time { return d.At.Add(d.Took) }

// Generator dials until it is stopped.
type Generator struct {
	stop    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
	clients []*client
}

// client dials from one namespace.
type client struct {
	ns    *netlab.NS
	rest  time.Duration
	n     atomic.Int64 // dials that have ended
	dials []Dial
}

// Start starts dialling every address in turn, from every namespace at once,
// at most until the end of the test.
func Start(t *testing.T, from []*netlab.NS, to ...netip.AddrPort) *Generator {
	return start(t, every, from, to)
}

// Sparse is Start for what takes minutes, and in which what is wrong is so for a second: clients
// without a pause take a core, which others beside miss.
func Sparse(t *testing.T, from []*netlab.NS, to ...netip.AddrPort) *Generator {
	return start(t, sparsely, from, to)
}

func start(t *testing.T, rest time.Duration, from []*netlab.NS, to []netip.AddrPort) *Generator {
	g := &Generator{stop: make(chan struct{})}
	for _, ns := range from {
		c := &client{ns: ns, rest: rest}
		g.clients = append(g.clients, c)
		g.wg.Go(func() { c.run(g.stop, to) })
	}
	t.Cleanup(func() { g.Stop() })
	return g
}

func (c *client) run(stop chan struct{}, to []netip.AddrPort) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		start := time.Now()
		a, err := edge.Ask(c.ns, "tcp", to[i%len(to)], Timeout)
		if err != nil {
			err = fmt.Errorf("%s to %s: %w", c.ns.Name, to[i%len(to)], err)
		}
		c.dials = append(c.dials, Dial{start, time.Since(start), a.Name, err})
		c.n.Add(1)
		time.Sleep(c.rest)
	}
}

// More waits until every client has begun and ended n dials more.
func (g *Generator) More(t *testing.T, n int) {
	t.Helper()
	for _, c := range g.clients {
		until := c.n.Load() + int64(n) + 1 // the one that is under way does not count
		wait.Eventually(t, func() error {
			if now := c.n.Load(); now < until {
				return fmt.Errorf("%d dials of %s, %d wanted", now, c.ns.Name, until)
			}
			return nil
		})
	}
}

// Stop ends it and returns what was done.
func (g *Generator) Stop() (dials []Dial) {
	g.once.Do(func() { close(g.stop) })
	g.wg.Wait()
	for _, c := range g.clients {
		dials = append(dials, c.dials...)
	}
	return dials
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

// clock is how a time of day is told, so that logs of programs can be laid beside it.
const clock = "15:04:05.000"

// NoneFailed reports how many dials there were and fails on any that failed.
func NoneFailed(t *testing.T, what string, list []Dial) {
	t.Helper()
	failed := Failed(list)
	slowest := time.Duration(0)
	for _, d := range list {
		slowest = max(slowest, d.Took)
	}
	t.Logf("%s: %d connections, %d failed, %d took more than 10 ms, the slowest %s", what, len(list), len(failed), len(Slow(list, 10*time.Millisecond)), slowest)
	if len(list) < fewest {
		t.Fatalf("%s: only %d connections were tried", what, len(list))
	}
	for i, d := range failed {
		if i < 5 {
			t.Errorf("%s: at %s failed after %s: %v", what, d.At.Format(clock), d.Took, d.Err)
		}
	}
}
