package capture

import (
	"fmt"
	"net/netip"
	"reflect"
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

// While nothing but a last good state is known, or not even that, what the run before
// left in force is all that knows of some frontends and ranges. Somebody who flushes it
// takes neither out of force.
func TestRepairOfWhatARunBeforeLeft(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, c *Capture){
		"the ruleset": func(t *testing.T, c *Capture) {
			c.table.conn.FlushRuleset()
			must(t, c.table.conn.Flush())
		},
		"frontends": func(t *testing.T, c *Capture) { c.emptied(t, "serve4") },
		"the guard": func(t *testing.T, c *Capture) { c.emptied(t, "guard4") },
	} {
		for _, state := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a last good state %v", name, state), func(t *testing.T) {
				t.Parallel()
				testkit.NewNetwork(t)
				before := newCluster().serve("web", "10.96.0.1", "10.244.0.5").serve("api", "10.96.0.2", "10.244.0.6")
				before.SetServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.97.0.0/16")})
				apply(t, starting(t, config(), testHost(t)), before.view(), false)
				c := starting(t, config(), testHost(t))
				if state { // which the disk did not take a newer one than
					apply(t, c, newCluster().serve("api", "10.96.0.2", "10.244.0.6").view(), true)
				}
				want := elements(t)
				harm(t, c)
				if repaired, err := c.Repair(); !repaired || err != nil {
					t.Fatalf("repaired %v, %v", repaired, err)
				}
				if got := elements(t); !reflect.DeepEqual(got, want) {
					t.Errorf("after the repair\n%v\nbefore\n%v", got, want)
				}
				if again, err := c.Repair(); again || err != nil {
					t.Errorf("again: %v, %v", again, err)
				}
				apply(t, c, newCluster().serve("api", "10.96.0.2", "10.244.0.6").view(), false)
				harm(t, c)
				if _, err := c.Repair(); err != nil || serves(t, web) || !serves(t, api) {
					t.Errorf("after a whole view: %v, served %v", err, elements(t))
				}
			})
		}
	}
}

// What a run before guarded is no longer guarded once a whole view says what is, also
// where the kernel path could not be written for a later one.
func TestAGuardOfARunBeforeDoesNotComeBack(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	before := newCluster().serve("api", "10.96.0.2", "10.244.0.6")
	before.SetServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.97.0.0/16")})
	apply(t, starting(t, kernelConfig(), testHost(t)), before.view(), false)
	c := starting(t, kernelConfig(), testHost(t))
	whole := newCluster().serve("api", "10.96.0.2", "10.244.0.6")
	apply(t, c, whole.view(), false)
	want := elements(t)["guard4"]
	conn := c.table.conn
	conn.DelTable(&nftables.Table{Name: rules.KernelName, Family: nftables.TableFamilyINet})
	must(t, conn.Flush())
	if err := c.Retract(whole.serve("web", "10.96.0.1", "10.244.0.5").view(), false); err == nil {
		t.Fatal("the kernel path was written into no table: the test shows nothing")
	}
	for range 2 {
		_, err := c.Repair()
		t.Log(err, c.Extend())
	}
	if got := elements(t)["guard4"]; !slices.Equal(got, want) {
		t.Errorf("guarded: %v, want %v", got, want)
	}
}
