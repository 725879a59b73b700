package capture

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// While a frontend has fewer endpoints and more by turns, nobody is refused. It meets what a
// packet under way may meet once in thousands of dials: kernel_underway_test.go has that each
// time.
func TestKernelEndpointsComeAndGo(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "a", l.a)
	l.serve(t, "b", l.b)
	l.serve(t, "far", l.far)
	const to = "10.96.0.1:80"
	put := func(names ...string) {
		l.put(t, plan.KernelFrontend{Frontend: tcp(to), Tiers: tiers(false, names...)})
	}
	put("a", "b", "far")
	changes := 0
	dials, refused := l.dialWhile(t, []*testkit.Network{l.outside}, to, func() {
		put("a", "b")
		put("a", "b", "far")
		changes += 2
	}, func(dials int64) bool { return dials >= 100 && changes >= 30 })
	t.Logf("%d changes, %d dials", changes, dials)
	if refused > 0 || dials < 100 || changes < 30 { // each a chance
		t.Errorf("%d refused", refused)
	}
}

// dialWhile has six clients dial, from networks in turn, while something is done again and
// again for 10 s and, on a busy machine, until it is enough, at most for a minute. It returns how
// often they did and were refused.
func (l *kernelLab) dialWhile(t *testing.T, from []*testkit.Network, to string, do func(), enough func(dials int64) bool) (dials, refused int64) {
	t.Helper()
	var all, bad atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, answer := dial(t, from[i%len(from)], "tcp", "", to, 10*time.Second)
				if conn != nil {
					conn.Close()
				}
				if all.Add(1); answer == isRefused {
					bad.Add(1)
				}
			}
		})
	}
	for start := time.Now(); time.Since(start) < 10*time.Second || !enough(all.Load()) && time.Since(start) < time.Minute; {
		do()
	}
	close(stop)
	wg.Wait()
	return all.Load(), bad.Load()
}
