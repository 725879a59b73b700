package capture

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// A start during which somebody flushes all rules puts its guard in force all the same: what it
// found a moment ago may be gone.
func TestAFlushDuringAStart(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	host, cfg := testHost(t), config()
	cfg.Kernel, cfg.PodCIDRs = &plan.Kernel{}, nil // as before its Node is known: what is there stays
	others, err := nftables.New(nftables.AsLasting())
	must(t, err)
	defer func() { must(t, others.CloseLasting()) }()
	for range 40 {
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(rand.N(40 * time.Millisecond)) // a start takes about as long
			others.FlushRuleset()
			_ = others.Flush()
		})
		c, err := New(cfg, host)
		must(t, err)
		_, before := c.Earlier()
		err = c.Install(cfg.ServiceCIDRs)
		wg.Wait()
		c.flows.stop()
		if before != nil || err != nil {
			t.Fatalf("a start beside a flush: %v, %v", before, err)
		}
		_, err = c.Repair()
		must(t, err)
	}
}
