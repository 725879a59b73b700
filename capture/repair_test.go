package capture

import (
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// repairedWithin is five times what the slowest machine needed.
const repairedWithin = 1300 * time.Millisecond

// From a flush by somebody else to rules and elements that are whole again, as
// an agent does it: woken by Watch, then Repair.
func TestTimeToRepair(t *testing.T) {
	testkit.NewNetwork(t)
	addBridge(t, "cni0")
	c := starting(t, config(), testHost(t))
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	wake, err := Watch(t.Context())
	must(t, err)
	other, err := nftables.New(nftables.AsLasting()) // a close would wait, and be measured
	must(t, err)
	defer func() { must(t, other.CloseLasting()) }()
	serve := c.table.sets[rules.Serve.For(rules.IPv4)]
	served := func() bool {
		list, err := other.GetSetElements(serve)
		return err == nil && len(list) == 1
	}
	var took []time.Duration
	for range 5 {
		calm(wake)
		other.FlushRuleset()
		start := time.Now()
		must(t, other.Flush())
		for whole := false; !whole; {
			select {
			case <-wake:
			case <-time.After(time.Minute):
				t.Fatal("nobody was woken")
			}
			repaired, err := c.Repair()
			must(t, err)
			whole = repaired && served()
		}
		took = append(took, time.Since(start))
		if again, err := c.Repair(); again || err != nil {
			t.Errorf("and again: %v, %v", again, err)
		}
	}
	slices.Sort(took)
	// The best of five: 40 ms on one core, 260 ms where that had 20 others to serve.
	if took[0] > repairedWithin {
		t.Errorf("whole again after %s at best, want %s", took[0], repairedWithin)
	}
	t.Logf("flushed by somebody else, whole again after %s", took)
}
