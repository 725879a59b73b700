package capture

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// Of those that were, the oldest are forgotten, and none of the other family for it.
func TestHomesAreBounded(t *testing.T) {
	t.Parallel()
	were, ip := homes{}, netip.MustParseAddr("2001:db8::1")
	were.add(netip.MustParseAddr("192.0.2.1"))
	for range 3 * mostHomes {
		were.add(ip)
		were.add(ip)
		ip = ip.Next()
	}
	if got := were[true]; len(got) != mostHomes || got[mostHomes-1] != ip.Prev() || len(were[false]) != 1 {
		t.Errorf("%v", were)
	}
}

// homesLab is a node of two uplinks, of which the worse has the only default route.
type homesLab struct {
	*Capture
	wired, mobile *netlink.Route
	link          netlink.Link
}

func newHomesLab(t *testing.T, known IPs, young bool) *homesLab {
	t.Helper()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	cfg.Kernel = &plan.Kernel{}
	h := &homesLab{
		wired:  &netlink.Route{Gw: parse(t, "192.0.2.9/32").IP},
		mobile: &netlink.Route{Gw: parse(t, "10.99.0.2/32").IP, Priority: 100},
	}
	must(t, netlink.RouteAdd(h.mobile))
	must(t, netlink.RouteDel(h.wired))
	var err error
	h.link, err = netlink.LinkByName("up0")
	must(t, err)
	h.Capture, err = New(cfg, l.host)
	must(t, err)
	t.Cleanup(h.flows.stop)
	h.node.young = func() bool { return young }
	h.RememberIPs(known)
	must(t, h.Install(cfg.ServiceCIDRs))
	return h
}

func (h *homesLab) expect(t *testing.T, when, want string) {
	t.Helper()
	if _, err := h.Repair(); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	if got := fmt.Sprint(h.kernel.ports); got != want {
		t.Errorf("%s: node ports are served at %s, want %s", when, got, want)
	}
}

func ips(list ...string) (all []netip.Addr) {
	for _, text := range list {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// Node ports are served where the Node says, whichever uplink was there first; where it said
// before, too, while the node has the address; and by the routes where it has none of them.
func TestNodePortsWhereTheNodeSays(t *testing.T) {
	t.Parallel()
	h := newHomesLab(t, IPs{}, false)
	h.expect(t, "the worse uplink came first", "[10.99.0.1 2001:db8::1]")
	must(t, netlink.RouteAdd(h.wired))
	h.expect(t, "and then the better one", "[10.99.0.1 2001:db8::1]")
	h.SayIPs(ips("192.0.2.1"))
	h.expect(t, "the Node is known by it", "[192.0.2.1 2001:db8::1]")
	h.SayIPs(ips("10.99.0.1", "203.0.113.7", "127.0.0.1"))
	h.expect(t, "the kubelet says the other", "[10.99.0.1 192.0.2.1 2001:db8::1]")
	h.SayIPs(ips("192.0.2.1"))
	h.SayIPs(nil)
	h.expect(t, "and the first again", "[10.99.0.1 192.0.2.1 2001:db8::1]")
	must(t, netlink.AddrDel(h.link, parse(t, "192.0.2.1/24")))
	h.expect(t, "its address is gone", "[10.99.0.1 2001:db8::1]")
	must(t, netlink.AddrAdd(h.link, parse(t, "192.0.2.1/24")))
	h.expect(t, "and back", "[10.99.0.1 192.0.2.1 2001:db8::1]")
	if got := fmt.Sprint(h.IPs().Said); got != "[192.0.2.1 10.99.0.1 203.0.113.7]" {
		t.Errorf("kept are %s", got)
	}
	if got := fmt.Sprint(h.IPs().Homes); got != "[10.99.0.1 2001:db8::1]" { // by the routes, before the Node said anything, and of IPv6
		t.Errorf("homes are %s", got)
	}
}

// What a run before knew is served again by one that started while the better uplink was away,
// once that is back; also where the disk gives it late.
func TestNodePortsWhereARunBeforeServedThem(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]IPs{
		"its Node's":    {Said: ips("192.0.2.1")},
		"of its routes": {Homes: ips("192.0.2.1", "10.99.0.1")},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late %v", name, late), func(t *testing.T) {
				t.Parallel()
				before := known
				if late {
					before = IPs{}
				}
				h := newHomesLab(t, before, false)
				must(t, netlink.AddrDel(h.link, parse(t, "192.0.2.1/24")))
				h.expect(t, "away", "[10.99.0.1 2001:db8::1]")
				if late {
					h.RememberIPs(known)
				}
				must(t, netlink.AddrAdd(h.link, parse(t, "192.0.2.1/24")))
				h.expect(t, "back, with no route", "[192.0.2.1 2001:db8::1]")
			})
		}
	}
}

// While the node is young its best default route says where; what it says then is no home, but
// one that a run before knew is.
func TestANodeThatIsYoung(t *testing.T) {
	t.Parallel()
	young := newHomesLab(t, IPs{}, true)
	young.expect(t, "the worse uplink comes first", "[10.99.0.1 2001:db8::1]")
	must(t, netlink.RouteDel(young.mobile))
	young.expect(t, "none", "[10.99.0.1 2001:db8::1]")
	must(t, netlink.RouteAdd(young.mobile))
	must(t, netlink.RouteAdd(young.wired))
	young.expect(t, "the better one comes", "[192.0.2.1 2001:db8::1]")
	young.node.young = func() bool { return false }
	young.expect(t, "no longer young", "[192.0.2.1 2001:db8::1]")
	must(t, netlink.RouteDel(young.wired))
	young.expect(t, "and the better one goes", "[192.0.2.1 2001:db8::1]")
}

func TestANodeThatIsYoungAndHasAHome(t *testing.T) {
	t.Parallel()
	h := newHomesLab(t, IPs{Homes: ips("192.0.2.1")}, true)
	h.expect(t, "its home", "[192.0.2.1 2001:db8::1]")
}

// That the default route leaves elsewhere than node ports are served is told once it lasts, and
// not where the Node says where it is known.
func TestNodePortsElsewhereThanTheDefaultRoute(t *testing.T) {
	t.Parallel()
	h := newHomesLab(t, IPs{}, false)
	h.expect(t, "the worse uplink came first", "[10.99.0.1 2001:db8::1]")
	must(t, netlink.RouteAdd(h.wired))
	all, err := h.node.addresses(0)
	must(t, err)
	now := time.Now()
	found := func(after time.Duration) bool {
		t.Helper()
		now = now.Add(after)
		h.judgeHomes(all, now)
		return slices.ContainsFunc(h.own.all(), func(f Finding) bool {
			return f.Kind == NodePortHome && strings.Contains(f.Text, "at 10.99.0.1, and not at 192.0.2.1;")
		})
	}
	if found(astrayEvery) || found(astrayFor-time.Second) {
		t.Error("told before it lasts")
	}
	if !found(time.Minute) {
		t.Errorf("found is %v", h.own.all())
	}
	h.SayIPs(ips("10.99.0.1"))
	if found(astrayEvery) || found(astrayFor) {
		t.Error("told though the Node says so")
	}
}
