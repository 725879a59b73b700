package capture

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// A start during which somebody flushes all rules puts its guard in force all the same, also
// over what a run before guarded and it has read: what it found a moment ago may be gone.
func TestAFlushDuringAStart(t *testing.T) {
	t.Parallel()
	for name, pods := range map[string][]netip.Prefix{
		"before its Node is known": nil, // what is there stays
		"with its ranges of pods":  podCIDRs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.NewNetwork(t)
			host, cfg := testHost(t), config()
			cfg.Kernel, cfg.PodCIDRs = &plan.Kernel{}, pods
			others, err := nftables.New(nftables.AsLasting())
			must(t, err)
			defer func() { must(t, others.CloseLasting()) }()
			conn := nft.Open()
			defer conn.Close()
			_, err = conn.Generation() // which opens the socket, in this network
			must(t, err)
			written, kept := 0, 0 // starts that wrote after the flush; those of them that had read before it
			took := 40 * time.Millisecond
			for range 40 {
				var flushed uint32
				began := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() {
					time.Sleep(rand.N(took)) // as long as the last one
					others.FlushRuleset()
					_ = others.Flush()
					flushed, _ = conn.Generation()
				})
				c, err := New(cfg, host)
				must(t, err)
				_, before := c.Earlier()
				err = c.Install(cfg.ServiceCIDRs)
				ended := time.Since(began)
				wg.Wait()
				took = ended
				c.flows.stop()
				if before != nil || err != nil {
					t.Fatalf("a start beside a flush: %v, %v", before, err)
				}
				last, err := conn.Generation()
				must(t, err)
				found := c.earlier.prefixes(rules.Guard)
				if last != flushed {
					if written++; len(found) > 0 {
						kept++
					}
					wantGuard(t, c, "after the start", cfg.ServiceCIDRs, found)
				}
				_, err = c.Repair()
				must(t, err)
				wantGuard(t, c, "repaired", cfg.ServiceCIDRs, found)
				must(t, c.table.addGuard([]netip.Prefix{netip.MustParsePrefix("10.97.0.0/24")})) // of this run alone
			}
			if written == 0 || kept == 0 {
				t.Errorf("%d starts wrote after a flush, of which %d had read what was there", written, kept)
			}
		})
	}
}

// wantGuard wants ranges guarded, by what is in the kernel.
func wantGuard(t *testing.T, c *Capture, when string, lists ...[]netip.Prefix) {
	t.Helper()
	is, err := c.Earlier()
	must(t, err)
	for _, p := range slices.Concat(lists...) {
		if !slices.ContainsFunc(is.Guard, func(g netip.Prefix) bool { return g.Bits() <= p.Bits() && g.Overlaps(p) }) {
			t.Errorf("%s: %s is not guarded; what is: %v", when, p, is.Guard)
		}
	}
}
