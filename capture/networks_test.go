package capture

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// What of a host is in a range of Services is found: addresses and routes into
// it, and nothing that merely leads there.
func TestNetworks(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	la := netlink.NewLinkAttrs()
	la.Name = "eth0"
	must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: la}))
	eth, err := netlink.LinkByName("eth0")
	must(t, err)
	must(t, netlink.LinkSetUp(eth))
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	address := func(l netlink.Link, text string) {
		addr, err := netlink.ParseAddr(text)
		must(t, err)
		must(t, netlink.AddrAdd(l, addr))
	}
	route := func(text string) {
		_, dst, err := net.ParseCIDR(text)
		must(t, err)
		must(t, netlink.RouteAdd(&netlink.Route{Dst: dst, LinkIndex: eth.Attrs().Index}))
	}
	address(eth, "10.200.1.7/24")
	address(eth, "fd00:200::7/64")
	address(lo, "10.96.0.10/32") // a node's own DNS
	for _, dst := range []string{"0.0.0.0/0", "10.0.0.0/8", "10.96.0.0/16", "10.97.3.0/24"} {
		route(dst)
	}
	ranges := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}
	want := func(when string, want ...Network) {
		t.Helper()
		if got, err := Networks(ranges); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", when, got, err, want)
		}
	}
	want("nothing is in them")
	route("10.96.7.0/24")
	address(eth, "10.96.3.7/20")
	address(eth, "10.96.99.1/32") // as some clouds give it
	want("addresses and a route",
		Network{netip.MustParsePrefix("10.96.0.0/20"), "eth0", false},
		Network{netip.MustParsePrefix("10.96.7.0/24"), "eth0", true},
		Network{netip.MustParsePrefix("10.96.99.1/32"), "eth0", false})
	for i := range 3 * maxNetworks {
		route(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 96, 128 + byte(i>>8), byte(i)}), 32).String())
	}
	if got, err := Networks(ranges); err != nil || len(got) > 2*maxNetworks {
		t.Errorf("%d networks of very many routes, %v", len(got), err)
	}
}

// Only a link that is gone has no network; one that cannot be read may be the
// node's own.
func TestLinkThatCannotBeRead(t *testing.T) {
	for err, gone := range map[error]bool{unix.ENODEV: true, netlink.LinkNotFoundError{}: true, unix.EMFILE: false, unix.ENOBUFS: false} {
		names := linkNames{ask: func(int) (netlink.Link, error) { return nil, err }, known: map[int]string{}}
		for range 2 {
			if name, got := names.of(7); name != "" || (got == nil) != gone || !gone && !errors.Is(got, err) {
				t.Errorf("%v: %q, %v", err, name, got)
			}
		}
	}
}
