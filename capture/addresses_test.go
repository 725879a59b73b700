package capture

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

// Node ports are served where the default routes leave, and stay where there is
// none any more while the node has the address.
func TestPrimaries(t *testing.T) {
	t.Parallel()
	newKernelLab(t, kernelConfig())
	var own []netip.Addr
	expect := func(when, want string) {
		t.Helper()
		var err error
		own, err = primaries(own)
		must(t, err)
		if got := fmt.Sprint(own); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	expect("both families", "[192.0.2.1 2001:db8::1]")
	must(t, netlink.RouteAdd(&netlink.Route{Gw: parse(t, "10.99.0.2/32").IP, Priority: 100}))
	expect("another, which is worse", "[192.0.2.1 2001:db8::1]")
	must(t, netlink.RouteDel(&netlink.Route{Gw: parse(t, "192.0.2.9/32").IP}))
	expect("the better one is gone", "[10.99.0.1 2001:db8::1]")
	must(t, netlink.RouteDel(&netlink.Route{Gw: parse(t, "10.99.0.2/32").IP}))
	expect("the last one is gone", "[10.99.0.1 2001:db8::1]")
	link, err := netlink.LinkByName("far0")
	must(t, err)
	must(t, netlink.AddrDel(link, parse(t, "10.99.0.1/24")))
	expect("and the address", "[2001:db8::1]")
}
