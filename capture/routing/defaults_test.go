package routing

import (
	"errors"
	"fmt"
	"net"
	"testing"

	nl "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// uplink is a link that routes may lead to.
func uplink(t *testing.T) int {
	t.Helper()
	la := netlink.NewLinkAttrs()
	la.Name = "up"
	must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: la}))
	link, err := netlink.LinkByName("up")
	must(t, err)
	addr, err := netlink.ParseAddr("192.0.2.1/24")
	must(t, err)
	must(t, netlink.AddrAdd(link, addr))
	must(t, netlink.LinkSetUp(link))
	return link.Attrs().Index
}

func hosts(t *testing.T, table, link, n int) {
	t.Helper()
	for i := range n {
		dst := &net.IPNet{IP: net.IPv4(10, 1, byte(i>>8), byte(i)), Mask: net.CIDRMask(32, 32)}
		must(t, netlink.RouteAdd(&netlink.Route{Dst: dst, LinkIndex: link, Table: table}))
	}
}

// Default routes are those of the main table that lead somewhere, and the kernel tells
// of that table alone.
func TestDefaults(t *testing.T) {
	testkit.NewNetwork(t)
	up := uplink(t)
	expect := func(when, want string) {
		t.Helper()
		if list, err := Defaults(false); fmt.Sprint(list) != want || err != nil {
			t.Errorf("%s: %v, %v, want %s", when, list, err, want)
		}
	}
	expect("none", "[]")
	hosts(t, unix.RT_TABLE_MAIN, up, 5)
	hosts(t, 100, up, 50)
	add := func(r netlink.Route) { must(t, netlink.RouteAdd(&r)) }
	add(netlink.Route{LinkIndex: up, Table: 100, Gw: net.IPv4(192, 0, 2, 7)})
	add(netlink.Route{Type: unix.RTN_UNREACHABLE, Priority: 9000, Dst: inet4.any})
	expect("elsewhere", "[]")
	add(netlink.Route{LinkIndex: up, Priority: 10, Gw: net.IPv4(192, 0, 2, 9), Src: net.IPv4(192, 0, 2, 1)})
	expect("one", fmt.Sprintf("[{%d 10 192.0.2.1}]", up))
	hops := []*netlink.NexthopInfo{{LinkIndex: up, Gw: net.IPv4(192, 0, 2, 9)}, {LinkIndex: up, Gw: net.IPv4(192, 0, 2, 8)}}
	add(netlink.Route{Dst: inet4.any, MultiPath: hops, Priority: 20})
	expect("two, and one by several ways", fmt.Sprintf("[{%d 10 192.0.2.1} {%d 20 invalid IP}]", up, up))
	told := 0
	conn, err := links.Dial()
	must(t, err)
	defer conn.Close()
	_, err = defaults(false, func(m nl.Message, do func(nl.Message) error) error {
		return dump.Each(conn, m, func(item nl.Message) error { told++; return do(item) })
	})
	if told != 5+1+3 || err != nil { // the network of the link, and the defaults
		t.Errorf("the kernel told of %d routes, %v", told, err)
	}
}

// A list that was torn is read again, and one that stays so has what was told.
func TestTornDefaults(t *testing.T) {
	route := nl.Message{Data: []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, 0, 0, unix.RTN_UNICAST, 0, 0, 0, 0}}
	for torn, want := range map[int]error{0: nil, 1: nil, 4: nil, 5: dump.ErrTorn} {
		n := 0
		list, err := defaults(false, func(_ nl.Message, do func(nl.Message) error) error {
			if n++; n <= torn {
				return errors.Join(do(route), dump.ErrTorn)
			}
			return do(route)
		})
		if len(list) != 1 || !errors.Is(err, want) {
			t.Errorf("torn %d times: %v, %v", torn, list, err)
		}
	}
	if _, err := defaults(true, func(nl.Message, func(nl.Message) error) error { return unix.EPERM }); !errors.Is(err, unix.EPERM) {
		t.Errorf("cannot be read: %v", err)
	}
}

// A look at our table has the kernel tell of no other, whose numbers are beyond a byte and within.
func TestRoutesOfATable(t *testing.T) {
	testkit.NewNetwork(t)
	up := uplink(t)
	hosts(t, unix.RT_TABLE_MAIN, up, 5)
	for table, n := range map[int]int{100: 3, 15001: 4, 70000: 0} {
		hosts(t, table, up, n)
		list, err := routesOf(table, inet4)
		if len(list) != n || err != nil {
			t.Errorf("table %d has %d routes, %v, want %d", table, len(list), err, n)
		}
	}
	if list, err := routesOf(15001, inet6); len(list) != 0 || err != nil {
		t.Errorf("of IPv6: %v, %v", list, err)
	}
}
