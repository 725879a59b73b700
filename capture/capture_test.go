package capture

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

const web, api = "10.96.0.1:80", "10.96.0.2:80"

func TestGuardIsInForceBeforeTheFirstView(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	if c.Found() {
		t.Error("rules of a run before were found in a new network")
	}
	if got := elements(t)["guard4"]; len(got) < 2 {
		t.Errorf("guard4 holds %v", got)
	}
}

func TestRestartTakesNothingOutOfForce(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	k := newCluster().serve("web", "10.96.0.1", "10.244.0.5").serve("api", "10.96.0.2", "10.244.0.6")
	apply(t, c, k.view(), false)
	before := elements(t)
	next := starting(t, config(), testHost(t))
	if !next.Found() {
		t.Error("the rules of the run before were not found")
	}
	if after := elements(t); !reflect.DeepEqual(after, before) {
		t.Errorf("sets after a restart: %v, before: %v", after, before)
	}
	// The first whole view is compared with them.
	k.DeleteService(topology.ObjectKey{Namespace: "default", Name: "api"})
	apply(t, next, k.view(), false)
	if !serves(t, web) || serves(t, api) {
		t.Error("the first whole view was not compared with what was in force")
	}
}

func TestAnotherChoiceOfFlagsChangesTheRulesOnly(t *testing.T) {
	t.Parallel()
	c := started(t, kept())
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	starting(t, config(), testHost(t))
	inKernel(t, rules.Inet(config()))
	if !serves(t, web) {
		t.Error("elements were lost")
	}
}

func TestAnotherLayoutIsReplaced(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	conn := nft.New()
	old := conn.AddTable(&nftables.Table{Name: rules.Name, Family: nftables.TableFamilyINet})
	must(t, conn.AddSet(&nftables.Set{Table: old, Name: "serve4", KeyType: nftables.TypeInetService}, nil))
	must(t, conn.Flush())
	c := starting(t, config(), testHost(t))
	if c.Found() {
		t.Error("a table of another layout counts as rules of a run before")
	}
	inKernel(t, rules.Inet(config()))
}

func TestRetractRemovesAndExtendAdds(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	k := newCluster().serve("web", "10.96.0.1", "10.244.0.5")
	apply(t, c, k.view(), false)
	k.serve("web", "10.96.0.1").serve("api", "10.96.0.2", "10.244.0.6")
	must(t, c.Retract(k.view(), false))
	if serves(t, web) || serves(t, api) {
		t.Error("after Retract: what is refused is still served, or what is new already")
	}
	must(t, c.Extend())
	if serves(t, web) || !serves(t, api) {
		t.Error("after Extend: the new one is not served")
	}
}

func TestProvisionalOnlyAdds(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	next := starting(t, config(), testHost(t))
	old := newCluster().serve("api", "10.96.0.2", "10.244.0.6")
	apply(t, next, old.view(), true)
	if !serves(t, web) || !serves(t, api) {
		t.Error("the last good state took something out of force, or added nothing")
	}
	apply(t, next, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	if !serves(t, web) || serves(t, api) {
		t.Error("the first whole view did not correct the last good state")
	}
}

func TestAfterAFailureTheNextViewIsCompared(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	k := newCluster().serve("web", "10.96.0.1", "10.244.0.5").serve("api", "10.96.0.2", "10.244.0.6")
	apply(t, c, k.view(), false)
	gone := topology.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: topology.TCP}
	must(t, c.table.conn.SetDeleteElements(c.table.sets["serve4"], []nftables.SetElement{frontendElement(gone)}))
	must(t, c.table.conn.Flush())
	k.serve("web", "10.96.0.1").serve("third", "10.96.0.3", "10.244.0.7")
	if err := c.Retract(k.view(), false); err == nil {
		t.Fatal("an element that is not there was removed without an error")
	}
	apply(t, c, k.view(), false)
	if serves(t, web) || !serves(t, api) || !serves(t, "10.96.0.3:80") {
		t.Error("the sets are not those of the view")
	}
	must(t, c.Extend()) // nothing to do
}

func TestRepair(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, c *Capture){
		"nothing": func(*testing.T, *Capture) {},
		"the table": func(t *testing.T, c *Capture) {
			c.table.conn.FlushRuleset()
			must(t, c.table.conn.Flush())
		},
		"the rule": func(t *testing.T, c *Capture) { must(t, netlink.RuleDel(ownRule(c.cfg, unix.AF_INET6))) },
		"the route": func(t *testing.T, c *Capture) {
			must(t, netlink.RouteDel(ownRoute(c.cfg, unix.AF_INET)))
		},
		"the rule's place": func(t *testing.T, c *Capture) {
			late := ownRule(c.cfg, unix.AF_INET)
			late.Priority = 500
			must(t, netlink.RuleAdd(late))
			must(t, netlink.RuleDel(ownRule(c.cfg, unix.AF_INET)))
		},
		"a chain": func(t *testing.T, c *Capture) {
			c.table.conn.FlushChain(&nftables.Chain{Table: c.table.nft, Name: rules.GuardForward})
			must(t, c.table.conn.Flush())
		},
		"a rule of a chain": func(t *testing.T, c *Capture) {
			chain := &nftables.Chain{Table: c.table.nft, Name: rules.GuardOutput}
			c.table.conn.InsertRule(&nftables.Rule{Table: c.table.nft, Chain: chain, Exprs: nft.Expressions(rules.Rule{rules.Accept})})
			must(t, c.table.conn.Flush())
		},
		"a rule, for another": func(t *testing.T, c *Capture) {
			chain := &nftables.Chain{Table: c.table.nft, Name: rules.GuardForward}
			list, err := c.table.conn.GetRules(c.table.nft, chain)
			must(t, err)
			c.table.conn.ReplaceRule(&nftables.Rule{Table: c.table.nft, Chain: chain, Handle: list[0].Handle, Exprs: nft.Expressions(rules.Rule{rules.Accept})})
			must(t, c.table.conn.Flush())
		},
		"an element": func(t *testing.T, c *Capture) { c.emptied(t, "serve4") },
		"the guard":  func(t *testing.T, c *Capture) { c.emptied(t, "guard6") },
		"pods":       func(t *testing.T, c *Capture) { c.emptied(t, "pods4") },
		"bridges":    func(t *testing.T, c *Capture) { c.emptied(t, rules.Bridges) },
		"a set": func(t *testing.T, c *Capture) { // which no rule needs at the moment
			c.table.conn.DelSet(c.table.sets[rules.Bridges])
			must(t, c.table.conn.Flush())
		},
		"the bridge": func(t *testing.T, c *Capture) {
			c.table.conn.DelTable(bridgeTable)
			must(t, c.table.conn.Flush())
		},
		"a sysctl": func(t *testing.T, _ *Capture) {
			must(t, os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0o644))
		},
	} {
		for _, provisional := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, provisional %v", name, provisional), func(t *testing.T) {
				t.Parallel()
				testkit.NewNetwork(t)
				addBridge(t, "cni0")
				c := starting(t, config(), testHost(t))
				apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), provisional)
				before, sets := everything(t), elements(t)
				harm(t, c)
				repaired, err := c.Repair()
				must(t, err)
				if repaired != (name != "nothing") {
					t.Errorf("repaired: %v", repaired)
				}
				if after := everything(t); after != before {
					t.Errorf("after:\n%s\nbefore:\n%s", after, before)
				}
				if after := elements(t); !reflect.DeepEqual(after, sets) {
					t.Errorf("sets after: %v, before: %v", after, sets)
				}
				inKernel(t, rules.Inet(c.cfg))
				inKernel(t, rules.Bridge(c.bridges))
				if again, err := c.Repair(); again || err != nil {
					t.Errorf("a second time: %v, %v", again, err)
				}
			})
		}
	}
}

// emptied is what somebody else does to a set.
func (c *Capture) emptied(t *testing.T, set string) {
	t.Helper()
	other, err := nftables.New()
	must(t, err)
	other.FlushSet(c.table.sets[set])
	must(t, other.Flush())
}

// A pod that is its Service's endpoint no more may dial itself until Envoy was told, which leads
// it there until then: without it what it says to itself would go past Envoy.
func TestAPodMayDialItselfUntilEnvoyKnows(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	world := newCluster().serve("web", "10.96.0.1", "10.244.0.5", "10.244.0.6")
	apply(t, c, world.view(), false)
	both := elements(t)["hairpin4"]
	if len(both) != 2 {
		t.Fatalf("%d may, want 2", len(both))
	}
	must(t, c.Retract(world.serve("web", "10.96.0.1", "10.244.0.6", "10.244.0.7").view(), false))
	if got := elements(t)["hairpin4"]; !slices.Equal(got, both) {
		t.Errorf("before Envoy was told %v may, want %v", got, both)
	}
	must(t, c.Extend())
	got := elements(t)["hairpin4"]
	apply(t, c, world.serve("web", "10.96.0.1", "10.244.0.7").serve("other", "10.96.0.2", "10.244.0.6").view(), false)
	if again := elements(t)["hairpin4"]; len(got) != 2 || slices.Equal(got, both) || !slices.Equal(again, got) {
		t.Errorf("afterwards %v may, and %v where another Service has one", got, again)
	}
}

func TestPodRangesMayComeLater(t *testing.T) {
	t.Parallel()
	late := config()
	late.PodCIDRs = nil
	c := started(t, late)
	addBridge(t, "cni0")
	view := newCluster().serve("web", "10.96.0.1", "10.244.0.5").view()
	apply(t, c, view, false)
	if c.Pods() != "unknown (no pod CIDR: sources are not kept)" {
		t.Errorf("without ranges: %s", c.Pods())
	}
	must(t, c.SetPodCIDRs(podCIDRs))
	if c.Pods() != "bridged (cni0)" || c.Found() {
		t.Errorf("%s, found %v", c.Pods(), c.Found())
	}
	got := elements(t)
	starting(t, config(), testHost(t))
	apply(t, c, view, false)
	if want := elements(t); !reflect.DeepEqual(got, want) || len(got["pods4"]) == 0 || len(got["hairpin4"]) == 0 {
		t.Errorf("sets: %v, known from the start: %v", got, want)
	}
	if err := c.SetPodCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/24")}); err == nil {
		t.Error("ranges of pods inside those of Services are taken")
	}
}

// A restart that has lost what it knew of pods takes no rule of theirs away
// before it has asked.
func TestRestartBeforePodRangesAreKnown(t *testing.T) {
	t.Parallel()
	started(t, config())
	addBridge(t, "cni0")
	starting(t, config(), testHost(t))
	before := everything(t)
	cfg := config()
	cfg.PodCIDRs = nil
	c := starting(t, cfg, testHost(t))
	if got := everything(t); got != before {
		t.Errorf("rules before\n%s\nand while the ranges are asked for\n%s", before, got)
	}
	must(t, c.SetPodCIDRs(podCIDRs))
	if got := everything(t); got != before || c.Pods() != "bridged (cni0)" {
		t.Errorf("rules before\n%s\nand with the ranges\n%s\n%s", before, got, c.Pods())
	}
	c = starting(t, cfg, testHost(t))
	if repaired, err := c.Repair(); !repaired || err != nil || len(elements(t)["pods4"]) > 0 {
		t.Errorf("without an answer: repaired %v, %v, pods %v", repaired, err, elements(t)["pods4"])
	}
}

// What bridges need and cannot have keeps nothing else from being in force.
func TestSysctlsThatCannotBeRemembered(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	full := filepath.Join(t.TempDir(), "full")
	must(t, os.WriteFile(full, nil, 0o600)) // no directory can be made in it
	c, err := New(config(), Host{StateDir: full, ProcSys: "/proc/sys", Patience: slowDisk})
	must(t, err)
	must(t, c.Install(config().ServiceCIDRs))
	if err := c.Tune(); err == nil {
		t.Error("a value was forgotten in silence")
	}
	addBridge(t, "cni0")
	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/cni0/send_redirects", []byte("1"), 0o644))
	if changed, err := c.RefreshBridges(); !changed || err == nil || !strings.Contains(err.Error(), "cleanup will not set") {
		t.Errorf("refreshed: %v, %v", changed, err)
	}
	if got := elements(t)[rules.Bridges]; len(got) != 1 || c.Pods() != "bridged (cni0)" {
		t.Errorf("bridges in force: %v; %s", got, c.Pods())
	}
	inKernel(t, rules.Bridge(c.bridges))

	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/cni0/send_redirects", []byte("1"), 0o644))
	_ = c.Remove() // there is no record to be read
	c, err = New(config(), Host{StateDir: full, ProcSys: "/proc/sys", Patience: slowDisk})
	must(t, err)
	if err := c.Install(config().ServiceCIDRs); err != nil || len(elements(t)["guard4"]) == 0 {
		t.Errorf("installed beside a bridge: %v, guard %v", err, elements(t)["guard4"])
	}
	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/cni0/send_redirects", []byte("0"), 0o644))
	must(t, c.SetPodCIDRs(podCIDRs[:1])) // and nothing is wrong with the bridges any more
	if _, err := c.RefreshBridges(); err == nil || !strings.Contains(err.Error(), "cleanup will not set") {
		t.Errorf("a value was forgotten in silence: %v", err)
	}
	if _, err := c.RefreshBridges(); err != nil {
		t.Errorf("said twice: %v", err)
	}

	conn, err := nftables.New()
	must(t, err)
	conn.FlushRuleset()
	must(t, conn.Flush())
	if repaired, err := c.Repair(); !repaired || err != nil || len(elements(t)["guard4"]) == 0 {
		t.Errorf("repaired %v, %v, guard %v", repaired, err, elements(t)["guard4"])
	}
}

func TestGuardOfRangesThatOverlap(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c, err := New(config(), testHost(t))
	must(t, err)
	must(t, c.Install([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/24"), netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.96.4.0/24")}))
	if got := elements(t)["guard4"]; len(got) == 0 {
		t.Errorf("guard in force: %v", got)
	}
}

// A write of elements that failed is made good by the next Repair, without a view.
func TestRepairAfterAFailedOne(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.9").view(), false)
	want := elements(t)
	c.held, c.outdated = unsure, true // as reapply leaves it
	_, err := c.table.sync(&plan.Plan{})
	must(t, err)
	if repaired, err := c.Repair(); !repaired || err != nil || !reflect.DeepEqual(elements(t), want) {
		t.Errorf("repaired %v, %v: %v, want %v", repaired, err, elements(t), want)
	}
}

func TestPodRangesBeforeInstall(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	cfg := config()
	cfg.PodCIDRs = nil
	c, err := New(cfg, testHost(t))
	must(t, err)
	untouched := everything(t)
	must(t, c.SetPodCIDRs(podCIDRs))
	if everything(t) != untouched {
		t.Error("something was written before Install")
	}
	must(t, c.Install(cfg.ServiceCIDRs))
	if len(elements(t)["pods4"]) == 0 {
		t.Error("the ranges are not in force")
	}
}

func TestBridges(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	addBridge(t, "other0")
	l, err := netlink.LinkByName("other0")
	must(t, err)
	must(t, netlink.AddrAdd(l, parse(t, "192.0.2.1/24")))
	addrs, err := netlink.AddrList(l, unix.AF_INET)
	must(t, err)
	for _, a := range addrs {
		if a.IP.String() == "10.244.0.1" {
			must(t, netlink.AddrDel(l, &a))
		}
	}
	if changed, err := c.RefreshBridges(); changed || err != nil || c.Pods() != "routed" {
		t.Errorf("a bridge of no pods: %v, %v, %s", changed, err, c.Pods())
	}
	addBridge(t, "cni0")
	if changed, err := c.RefreshBridges(); !changed || err != nil || c.Pods() != "bridged (cni0)" {
		t.Errorf("a bridge of pods: %v, %v, %s", changed, err, c.Pods())
	}
	inKernel(t, rules.Bridge(c.bridges))
	if got := elements(t)[rules.Bridges]; len(got) != 1 {
		t.Errorf("set bridges: %v", got)
	}
	if changed, err := c.RefreshBridges(); changed || err != nil {
		t.Errorf("nothing changed: %v, %v", changed, err)
	}
	cni, err := netlink.LinkByName("cni0")
	must(t, err)
	must(t, netlink.LinkDel(cni))
	if changed, err := c.RefreshBridges(); !changed || err != nil || c.Pods() != "routed" {
		t.Errorf("the bridge is gone: %v, %v, %s", changed, err, c.Pods())
	}
	if strings.Contains(everything(t), rules.Lift) {
		t.Error("rules of a bridge that is gone stay")
	}
}

func parse(t *testing.T, s string) *netlink.Addr {
	t.Helper()
	a, err := netlink.ParseAddr(s)
	must(t, err)
	return a
}

func TestWatchSeesBridges(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	wake, err := Watch(t.Context())
	must(t, err)
	<-wake // it begins awake
	addBridge(t, "cni0")
	<-wake
}

// Watch tells what others did to what is ours, and little of what is not.
func TestWatchSeesHandsOfOthers(t *testing.T) {
	c := started(t, config())
	ctx, cancel := context.WithCancel(t.Context())
	wake, err := Watch(ctx)
	must(t, err)
	for name, harm := range map[string]func(){
		"the ruleset": func() { c.table.conn.FlushRuleset(); must(t, c.table.conn.Flush()) },
		"the rule":    func() { must(t, netlink.RuleDel(ownRule(c.cfg, unix.AF_INET6))) },
		"the route":   func() { must(t, netlink.RouteDel(ownRoute(c.cfg, unix.AF_INET6))) },
		"an element":  func() { c.emptied(t, "guard4") },
	} {
		_, err := c.Repair()
		must(t, err)
		calm(wake)
		harm()
		select {
		case <-wake:
		case <-time.After(time.Minute):
			t.Errorf("%s: nobody was woken", name)
		}
	}
	foreign(t) // has a rule: for that everybody is woken
	_, err = c.Repair()
	must(t, err)
	anew, err := Watch(ctx) // hears nothing of what was before, however late this machine is
	must(t, err)
	<-anew // it begins awake
	addChain(t, &nftables.Chain{Table: &nftables.Table{Name: "another", Family: nftables.TableFamilyINet}, Name: "x"})
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: links.Lo, Table: 100, Dst: parse(t, "198.51.100.0/24").IPNet}))
	select {
	case <-anew:
		t.Error("woken by another table, or by a route of another kind")
	case <-time.After(10 * watchPause):
	}
	for _, own := range []func(){ // what the kernel tells is told in turn: here it is one wake-up each
		func() { c.emptied(t, "guard4") },
		func() { must(t, netlink.RuleDel(ownRule(c.cfg, unix.AF_INET6))) },
	} {
		own()
		select {
		case <-anew:
		case <-time.After(time.Minute):
			t.Fatal("nobody was woken by what is ours")
		}
		select {
		case <-anew:
			t.Error("woken twice by one change of ours, or by another's before it")
		case <-time.After(10 * watchPause):
		}
	}
	cancel()
	for _, woken := range []<-chan struct{}{wake, anew} {
		for range woken { // until nothing of it runs: goleak looks for the rest
		}
	}
}

// calm waits until no change is on its way any more.
func calm(wake <-chan struct{}) {
	for {
		select {
		case <-wake:
		case <-time.After(10 * watchPause):
			return
		}
	}
}

func TestCleanupLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]plan.Config{"default": config(), "bridge netfilter kept": kept()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.NewNetwork(t)
			addBridge(t, "cni0")
			foreign(t)
			before := everything(t)
			host := testHost(t)
			c := starting(t, cfg, host)
			apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
			if everything(t) == before {
				t.Fatal("nothing was installed")
			}
			must(t, Cleanup(t.Context(), cfg, host))
			if after := everything(t); after != before {
				t.Errorf("after:\n%s\nbefore:\n%s", after, before)
			}
			if left, _ := filepath.Glob(filepath.Join(host.StateDir, "sysctl", "*")); len(left) > 0 {
				t.Errorf("records of sysctls: %v", left)
			}
			must(t, Cleanup(t.Context(), cfg, host)) // what is not there is no error
		})
	}
}

// foreign makes rules of somebody else, with our names where that is possible.
func foreign(t *testing.T) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	for _, table := range []*nftables.Table{
		{Name: "firewall", Family: nftables.TableFamilyINet},
		{Name: rules.Name, Family: nftables.TableFamilyIPv4},
		{Name: "firewall", Family: nftables.TableFamilyBridge},
	} {
		conn.AddTable(table)
		for _, name := range []string{rules.Capture, "mine"} {
			chain := conn.AddChain(&nftables.Chain{Table: table, Name: name})
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: nft.Expressions(rules.Rule{rules.Accept})})
		}
	}
	must(t, conn.Flush())
	own := config().Table // may be somebody else's number too
	for _, table := range []int{100, own} {
		must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: 1, Table: table, Dst: parse(t, "192.0.2.0/24").IPNet}))
		rule := netlink.NewRule()
		rule.Mark, rule.Table, rule.Priority, rule.Family = 0x10, table, 900+table, unix.AF_INET
		must(t, netlink.RuleAdd(rule))
	}
}

func TestForeignRulesAreLeftAlone(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	foreign(t)
	host := testHost(t)
	c := starting(t, config(), host)
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	_, err := c.Repair()
	must(t, err)
	all := everything(t)
	for _, line := range []string{"1 firewall capture: 1 rules", "1 firewall mine: 1 rules", "2 gridmesh capture: 1 rules", "7 firewall mine: 1 rules", "rule 1000:", "rule 15901:", "192.0.2.0/24"} {
		if !strings.Contains(all, line) {
			t.Errorf("%q is gone:\n%s", line, all)
		}
	}
}

// The law: what a history of views leaves in the kernel is what the last one
// alone would.
func TestHistoriesEndAsTheLastViewAlone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			c := started(t, config())
			w := topologytest.New(seed)
			viewer := topology.NewViewer("n0", topology.Options{})
			random := rand.New(rand.NewPCG(seed, 2))
			var view *topology.View
			for range 50 {
				for range 1 + random.IntN(3) {
					w.Step()
				}
				if random.IntN(8) == 0 {
					w.Builder.SetServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/24"), netip.MustParsePrefix("10.97.0.0/16")})
				}
				view = viewer.See(w.Builder.Build())
				switch random.IntN(12) {
				case 0:
					c = starting(t, config(), testHost(t))
				case 1:
					_, err := c.Repair()
					must(t, err)
				case 2:
					apply(t, c, view, true)
				case 3:
					must(t, c.Retract(view, false)) // and Extend never came
				default:
					apply(t, c, view, false)
				}
			}
			apply(t, c, view, false)
			kept := elements(t)
			apply(t, started(t, config()), view, false) // in another network
			if anew := elements(t); !maps.EqualFunc(kept, anew, func(a, b []string) bool { return reflect.DeepEqual(a, b) }) {
				t.Errorf("kept %v\nanew %v", kept, anew)
			}
		})
	}
}
