package capture

import (
	"errors"
	"net/netip"
	"os"
	"reflect"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// disableIPv6 sets disable_ipv6 of every interface of the network.
func disableIPv6(t *testing.T, value string) {
	t.Helper()
	for _, link := range []string{"all", "default", "lo"} {
		must(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+link+"/disable_ipv6", []byte(value), 0o644))
	}
}

// A family that the node does not have keeps nothing from being in force for
// the other; it is followed when it comes, and when it goes.
func TestIPv6ComesAndGoes(t *testing.T) {
	testkit.NewNetwork(t)
	disableIPv6(t, "1")
	c := starting(t, config(), Host{t.TempDir(), "/proc/sys"})
	view := newCluster().serve("web", "10.96.0.1", "10.244.0.5").view()
	apply(t, c, view, false)
	for _, step := range []struct{ value, pods string }{
		{"1", "routed, without IPv6 (it is disabled on lo)"}, {"0", "routed"}, {"1", "routed, without IPv6 (it is disabled on lo)"}, {"0", "routed"},
	} {
		disableIPv6(t, step.value)
		before := c.Pods()
		if repaired, err := c.Repair(); repaired || err != nil {
			t.Errorf("disable_ipv6 %s: repaired %v, %v", step.value, repaired, err)
		}
		if changed, err := c.RefreshBridges(); changed != (before != step.pods) || err != nil {
			t.Errorf("disable_ipv6 %s: changed %v, %v", step.value, changed, err)
		}
		present := routed(t, c.cfg, unix.AF_INET6)
		if want := step.value == "0"; present != want || c.Pods() != step.pods {
			t.Errorf("disable_ipv6 %s: routes of IPv6 %v; %s", step.value, present, c.Pods())
		}
		if present := routed(t, c.cfg, unix.AF_INET); !present || !serves(t, web) {
			t.Errorf("disable_ipv6 %s: routes of IPv4 %v", step.value, present)
		}
	}
	disableIPv6(t, "1")
	must(t, Cleanup(c.cfg, c.host))
}

// A kernel that was started without IPv6 has no directory of it.
func TestKernelWithoutIPv6(t *testing.T) {
	testkit.NewNetwork(t)
	c := starting(t, config(), Host{t.TempDir(), t.TempDir()})
	if routed(t, c.cfg, unix.AF_INET6) {
		t.Error("routes of IPv6")
	}
	if repaired, err := c.Repair(); repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
}

// A start that fails leaves a node without rules as it was.
func TestFailedInstallLeavesNothing(t *testing.T) {
	testkit.NewNetwork(t)
	addBridge(t, "cni0")
	foreign(t)
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, errors.Join(netlink.LinkSetDown(lo), netlink.LinkSetName(lo, "other"))) // nothing takes the route
	before := everything(t)
	c, err := New(config(), Host{t.TempDir(), "/proc/sys"})
	must(t, err)
	if err := c.Install(config().ServiceCIDRs); err == nil {
		t.Fatal("installed, though no route can be")
	}
	if after := everything(t); after != before {
		t.Errorf("after\n%s\nbefore\n%s", after, before)
	}
}

// Another choice of mark and table leaves nothing of the last one.
func TestAnotherMarkAndTable(t *testing.T) {
	testkit.NewNetwork(t)
	old := ownRule(config(), unix.AF_INET) // as an agent wrote it that knew no protocol
	old.Priority, old.Protocol = 1000, 0
	must(t, netlink.RuleAdd(old))
	host := Host{t.TempDir(), "/proc/sys"}
	starting(t, config(), host)
	cfg := config()
	cfg.Mark, cfg.Mask, cfg.Table = 0x100, 0x300, 777
	starting(t, cfg, host)
	for _, f := range []int{unix.AF_INET, unix.AF_INET6} {
		list, err := netlink.RuleList(f)
		must(t, err)
		found := 0
		for i := range list {
			if list[i].Priority > 0 && list[i].Priority < 32766 {
				found++
				if want := ownRule(cfg, f); list[i].String() != want.String() || list[i].Protocol != want.Protocol || list[i].Mark != want.Mark || *list[i].Mask != *want.Mask {
					t.Errorf("left: %s mark %#x", list[i], list[i].Mark)
				}
			}
		}
		routes, err := netlink.RouteListFiltered(f, &netlink.Route{Table: config().Table}, netlink.RT_FILTER_TABLE)
		if found != 1 || len(routes) > 0 || err != nil {
			t.Errorf("%d rules; routes of the last table: %v, %v", found, routes, err)
		}
	}
}

// A range that was learnt while no agent ran is guarded at once, and so is one
// that is known at the start while a flush comes before the first view.
func TestGuardOfRangesThatAreNew(t *testing.T) {
	c := started(t, config())
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	more := netip.MustParsePrefix("10.112.0.0/12")
	next, err := New(config(), Host{t.TempDir(), "/proc/sys"})
	must(t, err)
	must(t, next.Install(append([]netip.Prefix{more}, config().ServiceCIDRs...)))
	guarded := func() map[string][]string {
		all := elements(t)
		return map[string][]string{"guard4": all["guard4"], "guard6": all["guard6"]}
	}
	want := guarded()
	if len(want["guard4"]) != 4 || len(want["guard6"]) != 2 {
		t.Errorf("guarded: %v", want)
	}
	next.table.conn.FlushRuleset()
	must(t, next.table.conn.Flush())
	repaired, err := next.Repair()
	must(t, err)
	if got := guarded(); !repaired || !reflect.DeepEqual(got, want) {
		t.Errorf("repaired %v: %v, want %v", repaired, got, want)
	}
	apply(t, next, newCluster().view(), true) // knows of none but the flags'
	if got := guarded(); !reflect.DeepEqual(got, want) {
		t.Errorf("provisional: %v, want %v", got, want)
	}
	apply(t, next, newCluster().view(), false)
	if got := guarded(); len(got["guard4"]) != 2 {
		t.Errorf("a whole view: %v", got)
	}
}

func TestPrefixesOfElements(t *testing.T) {
	for _, list := range [][]string{
		{"10.96.0.0/16"},
		{"10.96.0.0/24", "10.96.1.0/24", "10.112.0.0/12"},
		{"0.0.0.0/0"},
		{"10.0.0.0/8", "255.255.255.255/32"},
		{"fd00:96::/112", "fd00:97::1/128", "ffff::/16"},
	} {
		var want []netip.Prefix
		var set []nftables.SetElement
		for _, s := range list {
			p := netip.MustParsePrefix(s)
			want = append(want, p)
			set = append(set, rangeElements(p)...)
		}
		if got := plan.Disjoint(prefixes(set)); !reflect.DeepEqual(got, want) {
			t.Errorf("%v became %v", want, got)
		}
	}
}
