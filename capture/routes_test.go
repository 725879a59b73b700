package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/links"
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
	t.Parallel()
	testkit.NewNetwork(t)
	disableIPv6(t, "1")
	c := starting(t, config(), testHost(t))
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
	must(t, Cleanup(t.Context(), c.cfg, c.host))
}

// A kernel that was started without IPv6 has no directory of it.
func TestKernelWithoutIPv6(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, config(), Host{StateDir: t.TempDir(), ProcSys: t.TempDir(), Patience: slowDisk})
	if routed(t, c.cfg, unix.AF_INET6) {
		t.Error("routes of IPv6")
	}
	if repaired, err := c.Repair(); repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
}

// A start that fails leaves a node without rules as it was.
func TestFailedInstallLeavesNothing(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	addBridge(t, "cni0")
	foreign(t)
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, errors.Join(netlink.LinkSetDown(lo), netlink.LinkSetName(lo, "other"))) // nothing takes the route
	before := everything(t)
	c, err := New(config(), testHost(t))
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
	t.Parallel()
	testkit.NewNetwork(t)
	old := ownRule(config(), unix.AF_INET) // as an agent wrote it that knew no protocol
	old.Priority, old.Protocol = 1000, 0
	must(t, netlink.RuleAdd(old))
	host := testHost(t)
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

// A rule that is ours but for one thing is not ours, whether the library knows
// that thing or not, and neither is a second one.
func TestRulesThatAreNearlyOurs(t *testing.T) {
	t.Parallel()
	type rule = netlink.Rule
	const dscp, wide = 25, 253                         // FRA_DSCP; another table
	raw := func(r *rule, more ...nl.Attribute) error { // as ip(8) of another version
		conn, err := nl.Dial(unix.NETLINK_ROUTE, nil)
		must(t, err)
		defer conn.Close()
		number := func(of uint16, n int) nl.Attribute {
			return nl.Attribute{Type: of, Data: binary.NativeEndian.AppendUint32(nil, uint32(n))}
		}
		data, err := nl.MarshalAttributes(append([]nl.Attribute{number(6, r.Priority), number(10, int(r.Mark)), number(16, int(*r.Mask)), number(15, r.Table), {Type: 21, Data: []byte{r.Protocol}}}, more...))
		must(t, err)
		_, err = conn.Execute(nl.Message{Header: nl.Header{Type: unix.RTM_NEWRULE, Flags: nl.Request | nl.Create | nl.Acknowledge}, Data: append([]byte{byte(r.Family), 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, data...)})
		return err
	}
	for name, add := range map[string]func(r *rule) error{
		"of a port":                func(r *rule) error { r.Dport = netlink.NewRulePortRange(80, 80); return netlink.RuleAdd(r) },
		"of a protocol":            func(r *rule) error { r.IPProto = unix.IPPROTO_UDP; return netlink.RuleAdd(r) },
		"of what only some know":   func(r *rule) error { return raw(r, nl.Attribute{Type: dscp, Data: []byte{8}}) },
		"a second one":             func(r *rule) error { return raw(r) },
		"of another table":         func(r *rule) error { r.Table = wide; return netlink.RuleAdd(r) },
		"before ours":              func(r *rule) error { r.Priority = 0; return netlink.RuleAdd(r) },
		"inverted":                 func(r *rule) error { r.Invert = true; return netlink.RuleAdd(r) },
		"that leads nowhere":       func(r *rule) error { r.Table, r.Type = 0, 6; return netlink.RuleAdd(r) },
		"of a link that is not":    func(r *rule) error { r.IifName = "gone0"; return netlink.RuleAdd(r) },
		"of no protocol, but dear": func(r *rule) error { r.Priority, r.Protocol = 7, 0; return netlink.RuleAdd(r) },
	} {
		for _, instead := range []bool{false, true} {
			if name == "a second one" && instead {
				continue // that is ours
			}
			for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
				t.Run(fmt.Sprintf("%s, instead of ours %v, family %d", name, instead, family), func(t *testing.T) {
					t.Parallel()
					c := started(t, config())
					before := everything(t)
					if instead {
						must(t, netlink.RuleDel(ownRule(c.cfg, family)))
					}
					if err := add(ownRule(c.cfg, family)); err != nil {
						t.Skipf("SKIPPED: the kernel takes no such rule: %v", err)
					}
					if repaired, err := c.Repair(); !repaired || err != nil {
						t.Errorf("repaired %v, %v", repaired, err)
					}
					if after := everything(t); after != before {
						t.Errorf("after\n%s\nbefore\n%s", after, before)
					}
					if again, err := c.Repair(); again || err != nil {
						t.Errorf("repaired again: %v, %v", again, err)
					}
					if err := add(ownRule(c.cfg, family)); !errors.Is(err, os.ErrExist) { // beside ours it may not
						must(t, err)
					}
					must(t, c.Remove())
					list, err := netlink.RuleList(family)
					must(t, err)
					for _, r := range list {
						if r.Protocol == ownProtocol {
							t.Errorf("cleanup left %s", r)
						}
					}
				})
			}
		}
	}
}

// A route in our table that leads captured packets elsewhere goes; another stays.
func TestRoutesThatAreInTheWay(t *testing.T) {
	t.Parallel()
	for to, add := range map[string]netlink.Route{
		"10.96.0.0/16":      {Type: unix.RTN_BLACKHOLE},
		"10.96.7.0/24":      {Type: unix.RTN_UNREACHABLE},
		"0.0.0.0/1":         {Type: unix.RTN_UNICAST, LinkIndex: links.Lo},
		"0.0.0.0/0":         {Type: unix.RTN_BLACKHOLE, Priority: 7},
		"fd00:96::/112":     {Type: unix.RTN_BLACKHOLE},
		"::/0":              {Type: unix.RTN_UNREACHABLE, Priority: 1}, // before ours
		"fd00:96::1:0/120":  {Type: unix.RTN_UNICAST, LinkIndex: links.Lo},
		"192.0.2.0/24":      {Type: unix.RTN_BLACKHOLE},
		"2001:db8::/32":     {Type: unix.RTN_BLACKHOLE},
		"10.96.255.255/32":  {Type: unix.RTN_LOCAL, LinkIndex: links.Lo, Scope: unix.RT_SCOPE_HOST},
		"10.96.128.0/17":    {Type: unix.RTN_PROHIBIT},
		"fd00:96::beef/128": {Type: unix.RTN_PROHIBIT},
	} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			c := started(t, config())
			before := everything(t)
			_, dst, err := net.ParseCIDR(to)
			must(t, err)
			add.Dst, add.Table = dst, c.cfg.Table
			must(t, netlink.RouteAdd(&add))
			theirs := to == "0.0.0.0/0" || to == "192.0.2.0/24" || to == "2001:db8::/32" || to == "fd00:96::1:0/120"
			if repaired, err := c.Repair(); repaired == theirs || err != nil {
				t.Errorf("repaired %v, %v", repaired, err)
			}
			if after := everything(t); (after == before) == theirs {
				t.Errorf("after\n%s\nbefore\n%s", after, before)
			}
			if again, err := c.Repair(); again || err != nil {
				t.Errorf("repaired again: %v, %v", again, err)
			}
		})
	}
}

// A range that was learnt while no agent ran is guarded at once, and so is one
// that is known at the start while a flush comes before the first view.
func TestGuardOfRangesThatAreNew(t *testing.T) {
	t.Parallel()
	c := started(t, config())
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	more := netip.MustParsePrefix("10.112.0.0/12")
	next, err := New(config(), testHost(t))
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

// A first start takes no table that has routes of others in the way.
func TestTableOfOthers(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	_, dst, err := net.ParseCIDR("10.96.7.0/24")
	must(t, err)
	theirs := netlink.Route{Type: unix.RTN_BLACKHOLE, Dst: dst, Table: config().Table}
	must(t, netlink.RouteAdd(&theirs))
	before := everything(t)
	c, err := New(config(), testHost(t))
	must(t, err)
	if err := c.Install(config().ServiceCIDRs); err == nil || !strings.Contains(err.Error(), "10.96.7.0/24") || !strings.Contains(err.Error(), "--route-table") {
		t.Errorf("installed: %v", err)
	}
	if after := everything(t); after != before {
		t.Errorf("after\n%s\nbefore\n%s", after, before)
	}
	must(t, netlink.RouteDel(&theirs))
	must(t, c.Install(config().ServiceCIDRs))
}

// A table is ours where a route of ours is left in it, though somebody flushed the
// rules: a start takes it, and what is in the way goes, said once.
func TestStartAfterOurRulesWereFlushed(t *testing.T) {
	t.Parallel()
	started(t, config())
	before := everything(t)
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		must(t, netlink.RuleDel(ownRule(config(), family)))
	}
	_, dst, err := net.ParseCIDR("10.96.7.0/24")
	must(t, err)
	theirs := netlink.Route{Type: unix.RTN_BLACKHOLE, Dst: dst, Table: config().Table}
	must(t, netlink.RouteAdd(&theirs))
	var said bytes.Buffer
	c := starting(t, config(), Host{StateDir: t.TempDir(), ProcSys: "/proc/sys", Patience: slowDisk, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if after := everything(t); after != before {
		t.Errorf("after\n%s\nbefore\n%s", after, before)
	}
	must(t, netlink.RouteAdd(&theirs))
	if repaired, err := c.Repair(); !repaired || err != nil {
		t.Errorf("repaired %v, %v", repaired, err)
	}
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "10.96.7.0/24") || !strings.Contains(got, "table 15001") {
		t.Errorf("said of what went twice:\n%s", got)
	}
}

// Where a route cannot be removed a start after the first goes on, and Repair says so.
func TestRouteThatStays(t *testing.T) {
	t.Parallel()
	started(t, config())
	conn, err := nl.Dial(unix.NETLINK_ROUTE, nil)
	must(t, err)
	defer conn.Close()
	ask := func(msg uint16, head []byte, attrs ...uint32) {
		t.Helper()
		data := head
		for i := 0; i < len(attrs); i += 2 {
			data = binary.NativeEndian.AppendUint16(data, 8)
			data = binary.NativeEndian.AppendUint16(data, uint16(attrs[i]))
			data = binary.NativeEndian.AppendUint32(data, attrs[i+1])
		}
		_, err := conn.Execute(nl.Message{Header: nl.Header{Type: nl.HeaderType(msg), Flags: nl.Request | nl.Create | nl.Acknowledge}, Data: data})
		must(t, err)
	}
	// ip nexthop add id 7 dev lo; ip route add 10.96.7.0/24 nhid 7 table 15001
	const nhaID, nhaOIF, rtaDst, rtaTable, rtaNHID = 1, 5, 1, 15, 30
	nexthop := []byte{unix.AF_INET, 0, 0, 0, 0, 0, 0, 0}
	ask(unix.RTM_NEWNEXTHOP, nexthop, nhaID, 7, nhaOIF, links.Lo)
	ask(unix.RTM_NEWROUTE, []byte{unix.AF_INET, 24, 0, 0, 0, 4, 0, unix.RTN_UNICAST, 0, 0, 0, 0},
		rtaDst, binary.NativeEndian.Uint32([]byte{10, 96, 7, 0}), rtaTable, uint32(config().Table), rtaNHID, 7)

	next, err := New(config(), testHost(t))
	must(t, err)
	must(t, next.Install(config().ServiceCIDRs))
	if _, err := next.Repair(); err == nil || !strings.Contains(err.Error(), "10.96.7.0/24 in table 15001") {
		t.Errorf("a route that stays: %v", err)
	}
	ask(unix.RTM_DELNEXTHOP, nexthop, nhaID, 7) // and the routes that use it
	if repaired, err := next.Repair(); repaired || err != nil {
		t.Errorf("it is gone: repaired %v, %v", repaired, err)
	}
}
