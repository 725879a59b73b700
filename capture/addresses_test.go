package capture

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/routing"
)

// Node ports are served where the default routes leave at first, and stay there while the
// node has the address, whatever becomes of the routes: clients know it. So does each family.
func TestPrimaries(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	cfg.Kernel = &plan.Kernel{}
	c := starting(t, cfg, l.host)
	expect := func(when, want string) {
		t.Helper()
		must(t, c.followAddresses())
		if got := fmt.Sprint(c.kernel.ports); got != want || got != fmt.Sprint(c.kernel.own) {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	wired, mobile := &netlink.Route{Gw: parse(t, "192.0.2.9/32").IP}, &netlink.Route{Gw: parse(t, "10.99.0.2/32").IP, Priority: 100}
	expect("both families", "[192.0.2.1 2001:db8::1]")
	must(t, netlink.RouteAdd(mobile))
	expect("another, which is worse", "[192.0.2.1 2001:db8::1]")
	must(t, netlink.RouteDel(wired))
	expect("the better one is gone", "[192.0.2.1 2001:db8::1]")
	must(t, netlink.RouteDel(mobile))
	expect("the last one is gone", "[192.0.2.1 2001:db8::1]")
	must(t, netlink.RouteAdd(mobile))
	link, err := netlink.LinkByName("up0")
	must(t, err)
	must(t, netlink.AddrDel(link, parse(t, "192.0.2.1/24")))
	expect("and the address", "[10.99.0.1 2001:db8::1]")
	must(t, netlink.AddrAdd(link, parse(t, "192.0.2.5/24")))
	must(t, netlink.RouteAdd(wired))
	expect("a better one has come, of another address", "[10.99.0.1 2001:db8::1]")
	must(t, netlink.AddrAdd(link, parse(t, "192.0.2.1/24")))
	expect("the address is back", "[192.0.2.1 2001:db8::1]")
}

// What is chosen of a torn list does not stay: the one that it should be may be missing there.
func TestPrimariesOfATornListAreFoundAgain(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	must(t, netlink.RouteAdd(&netlink.Route{Gw: parse(t, "10.99.0.2/32").IP, Priority: 100}))
	cfg.Kernel = &plan.Kernel{}
	c, err := New(cfg, l.host)
	must(t, err)
	of, on := c.node, true
	c.node.defaults = func(ipv6 bool) ([]routing.Default, error) {
		list, err := of.defaults(ipv6)
		if on && len(list) > 1 && err == nil {
			return list[1:], dump.ErrTorn
		}
		return list, err
	}
	for _, want := range []string{"[10.99.0.1 2001:db8::1]", "[192.0.2.1 2001:db8::1]"} {
		if err := c.followAddresses(); errors.Is(err, dump.ErrTorn) != on || err != nil && !on {
			t.Error(err)
		}
		if got := fmt.Sprint(c.kernel.ports); got != want {
			t.Errorf("torn %v: node ports are served at %s, want %s", on, got, want)
		}
		on = false
	}
}

// torn is a node whose lists are torn while on says so.
func torn(of nodeNetwork, on *bool) nodeNetwork {
	tear := func(err error) error {
		if *on && err == nil {
			return dump.ErrTorn
		}
		return err
	}
	return nodeNetwork{
		young: of.young,
		addresses: func(link int) ([]netip.Addr, error) {
			list, err := of.addresses(link)
			return list, tear(err)
		},
		defaults: func(ipv6 bool) ([]routing.Default, error) {
			list, err := of.defaults(ipv6)
			return list, tear(err)
		},
	}
}

// Of addresses and routes that come and go all the time those that were told are
// served, and none that was served is left.
func TestNodePortsWhereAddressesAreTorn(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	for name, chosen := range map[string]plan.Kernel{"default routes": {}, "ranges": {NodePortAddresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.99.0.0/16"), netip.MustParsePrefix("2001:db8::/32")}}} {
		cfg.Kernel = &chosen
		c, err := New(cfg, l.host)
		must(t, err)
		on := true
		c.node = torn(c.node, &on)
		must(t, c.Install(cfg.ServiceCIDRs))
		if _, err := c.RefreshBridges(); !errors.Is(err, dump.ErrTorn) {
			t.Errorf("%s: installed beside lists that are torn, and said is %v", name, err)
		}
		expect := func(when string, torn bool, want string) {
			t.Helper()
			if _, err := c.Repair(); err != nil || told(c, KernelLook, dump.ErrTorn.Error()) != torn || told(c, KernelLook, "") != torn {
				t.Errorf("%s, %s: %v, found %v", name, when, err, c.own.all())
			}
			if got := fmt.Sprint(c.kernel.ports); got != want {
				t.Errorf("%s, %s: node ports are served at %s, want %s", name, when, got, want)
			}
		}
		all := map[string]string{"default routes": "[192.0.2.1 2001:db8::1]", "ranges": "[10.99.0.1 192.0.2.1 2001:db8::1]"}[name]
		expect("torn from the beginning", true, all)
		on = false
		expect("whole", false, all)
		link, err := netlink.LinkByName("up0")
		must(t, err)
		must(t, netlink.AddrAdd(link, parse(t, "192.0.2.77/32")))
		must(t, netlink.AddrDel(link, parse(t, "192.0.2.1/24")))
		on = true
		expect("moved, and torn", true, map[string]string{"default routes": all, "ranges": "[10.99.0.1 192.0.2.1 192.0.2.77 2001:db8::1]"}[name])
		on = false
		expect("moved", false, map[string]string{"default routes": "[192.0.2.77 2001:db8::1]", "ranges": "[10.99.0.1 192.0.2.77 2001:db8::1]"}[name])
		must(t, netlink.AddrAdd(link, parse(t, "192.0.2.1/24")))
		must(t, netlink.AddrDel(link, parse(t, "192.0.2.77/32")))
		must(t, c.Remove())
	}
}

// A look asks once for each thing that it has to know, also where it puts the rules
// in place again.
func TestAddressesAreReadOnce(t *testing.T) {
	t.Parallel()
	cfg := kernelConfig()
	l := newKernelLab(t, cfg)
	cfg.Kernel = &plan.Kernel{}
	c := starting(t, cfg, l.host)
	asked := map[string]int{}
	of := c.node
	c.node = nodeNetwork{
		young: of.young,
		addresses: func(link int) ([]netip.Addr, error) {
			asked[fmt.Sprint("link ", link)]++
			return of.addresses(link)
		},
		defaults: func(ipv6 bool) ([]routing.Default, error) {
			asked[fmt.Sprint("IPv6 ", ipv6)]++
			return of.defaults(ipv6)
		},
	}
	for _, harm := range []bool{false, true} {
		clear(asked)
		if harm {
			c.kernel.table.conn.DelTable(c.kernel.table.nft)
			must(t, c.kernel.table.conn.Flush())
		}
		if repaired, err := c.Repair(); repaired != harm || err != nil {
			t.Errorf("repaired %v, %v", repaired, err)
		}
		if want := map[string]int{"link 0": 1}; !maps.Equal(asked, want) {
			t.Errorf("the table removed %v: asked %v, want %v", harm, asked, want)
		}
	}
}
