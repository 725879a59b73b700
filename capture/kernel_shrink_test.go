package capture

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// While a frontend has fewer endpoints and more by turns, nobody is refused: a packet that
// had chosen among more than there are now has an endpoint all the same.
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
	var dials, refused atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, answer := dial(t, l.outside, "tcp", "", to, 5*time.Second)
				if conn != nil {
					conn.Close()
				}
				if dials.Add(1); answer == isRefused {
					refused.Add(1)
				}
			}
		})
	}
	changes := 0
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); changes += 2 {
		put("a", "b")
		put("a", "b", "far")
	}
	close(stop)
	wg.Wait()
	t.Logf("%d changes, %d dials", changes, dials.Load())
	if n := refused.Load(); n > 0 || dials.Load() < 100 || changes < 100 {
		t.Errorf("%d refused", n)
	}
}
