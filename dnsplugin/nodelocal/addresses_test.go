package nodelocal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Namespaced(func() int {
		code := m.Run()
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines that have not ended:", err)
			return 1
		}
		return code
	})
}

var (
	four = netip.MustParseAddr("169.254.20.11")
	six  = netip.MustParseAddr("fd00:6772:6964::53")
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ipv6 enables or disables it on lo of the test's network.
func ipv6(t *testing.T, off string) {
	t.Helper()
	must(t, os.WriteFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6", []byte(off), 0o600))
}

// onLo are the addresses of lo that are ours.
func onLo(t *testing.T) (list []netip.Addr) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	addrs, err := netlink.AddrList(lo, netlink.FAMILY_ALL)
	must(t, err)
	for _, a := range addrs {
		if ip, _ := netip.AddrFromSlice(a.IP); ip.Unmap() == four || ip == six {
			list = append(list, ip.Unmap())
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// Where IPv6 is disabled the address of IPv4 serves; when IPv6 comes the
// server is asked to listen anew, not more than once a minute. An address that
// somebody took away is put back.
func TestFamilyThatComesLater(t *testing.T) {
	testkit.NewNetwork(t)
	said := saidBy(t)
	ipv6(t, "1")
	asked := 0
	n := &node{addrs: []netip.Addr{four, six}, port: 53, reload: func() error { asked++; return nil }}
	defer n.forget()
	must(t, n.start())
	if !slices.Equal(n.listening, []netip.Addr{four}) {
		t.Fatalf("without IPv6 it listens on %v", n.listening)
	}
	now := time.Now()
	n.look(now)
	if asked != 0 {
		t.Errorf("asked to listen anew, without anything new")
	}
	cleanUp(t, four)
	n.look(now)
	if got := onLo(t); !slices.Equal(got, []netip.Addr{four}) {
		t.Errorf("after somebody took it away, %v are on lo", got)
	}
	ipv6(t, "0")
	for range 3 {
		n.look(now)
	}
	if got := onLo(t); !slices.Equal(got, []netip.Addr{four, six}) || asked != 1 {
		t.Errorf("with IPv6, %v are on lo, and the server was asked %d times", got, asked)
	}
	n.look(now.Add(reloadEvery))
	if asked != 2 {
		t.Errorf("a minute later it was asked %d times", asked)
	}
	for text, times := range map[string]int{"IPv6 is disabled on lo": 1, "IPv6 is there now": asked, "NET_ADMIN": 0} {
		if n := said.Count(text); n != times {
			t.Errorf("the log says %q %d times, want %d:\n%s", text, n, times, said.String())
		}
	}
	again := &node{addrs: []netip.Addr{four, six}, port: 53}
	must(t, again.start())
	if len(again.listening) != 2 {
		t.Errorf("anew, it listens on %v", again.listening)
	}
}

// Cleanup takes away what it is told only where it may be nodelocal's.
func TestCleanupLeavesOtherAddresses(t *testing.T) {
	testkit.NewNetwork(t)
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	other := netip.MustParseAddr("192.0.2.7")
	must(t, netlink.AddrAdd(lo, &netlink.Addr{IPNet: netlink.NewIPNet(other.AsSlice())}))
	there := func() (list []string) {
		addrs, err := netlink.AddrList(lo, netlink.FAMILY_ALL)
		must(t, err)
		for _, a := range addrs {
			list = append(list, a.IPNet.String())
		}
		return list
	}
	_, err = put([]netip.Addr{four, six})
	must(t, err)
	before := there()
	for _, text := range []string{"127.0.0.1", "::1", "192.0.2.7", "::ffff:169.254.20.11"} {
		ip := netip.MustParseAddr(text)
		if _, err := Cleanup([]netip.Addr{four, ip}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", ip, err)
		}
	}
	if after := there(); !slices.Equal(before, after) {
		t.Errorf("on lo are %v, and were %v", after, before)
	}
	for _, want := range [][]netip.Addr{{four, six}, nil} {
		if gone := cleanUp(t, four, six); !slices.Equal(gone, want) {
			t.Errorf("it says that %v were taken away, want %v", gone, want)
		}
	}
	if got := onLo(t); len(got) > 0 {
		t.Errorf("after cleanup %v are on lo", got)
	}
}

func cleanUp(t *testing.T, given ...netip.Addr) []netip.Addr {
	t.Helper()
	gone, err := Cleanup(given)
	must(t, err)
	return gone
}

// Beside a server that answers at an address nothing is taken away: gridmesh-dns would
// put it back, and others would be without it. One that has the address elsewhere
// goes on without ours.
func TestCleanupBesideAServer(t *testing.T) {
	testkit.NewNetwork(t)
	_, err := put([]netip.Addr{four, six})
	must(t, err)
	for network, at := range map[string]string{"udp": "169.254.20.11:53", "tcp": "[fd00:6772:6964::53]:5353"} {
		end := another(t, network, at)
		if _, err := Cleanup([]netip.Addr{six}); err == nil || !strings.Contains(err.Error(), "a process of this node answers at "+at) {
			t.Errorf("%s: %v", at, err)
		}
		if got := onLo(t); len(got) != 2 {
			t.Errorf("%s: on lo are %v", at, got)
		}
		end()
	}
	another(t, "udp", "169.254.20.11:53")
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "nodelocaldns"}, PeerName: "peer"}))
	link, err := netlink.LinkByName("nodelocaldns")
	must(t, err)
	must(t, netlink.AddrAdd(link, &netlink.Addr{IPNet: netlink.NewIPNet(four.AsSlice())}))
	if gone := cleanUp(t, six); !slices.Equal(gone, []netip.Addr{four, six}) {
		t.Errorf("with the address elsewhere %v are taken away", gone)
	}
}

// With addresses of IPv6 alone there is nothing to listen on.
func TestNoFamilyAtAll(t *testing.T) {
	testkit.NewNetwork(t)
	ipv6(t, "1")
	if err := (&node{addrs: []netip.Addr{six}, port: 53}).start(); err == nil || !strings.Contains(err.Error(), "IPv6 is disabled on lo") {
		t.Error(err)
	}
}

// The kernel never takes the address for the source of what the host sends to
// pods whose interfaces have none, also where an older version put it there.
func TestAddressIsNoSource(t *testing.T) {
	testkit.NewNetwork(t)
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.AddrAdd(lo, &netlink.Addr{IPNet: netlink.NewIPNet(four.AsSlice()), Label: marker}))
	for name, address := range map[string]string{"eth0": "192.0.2.1/24", "pod0": ""} {
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}))
		for _, end := range []string{name, name + "p"} {
			link, err := netlink.LinkByName(end)
			must(t, err)
			must(t, netlink.LinkSetUp(link))
		}
		if address != "" {
			addr, err := netlink.ParseAddr(address)
			must(t, err)
			link, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.AddrAdd(link, addr))
		}
	}
	pod, err := netlink.LinkByName("pod0")
	must(t, err)
	to := net.IPv4(10, 244, 0, 5)
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: pod.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: netlink.NewIPNet(to)}))
	source := func() string {
		t.Helper()
		routes, err := netlink.RouteGet(to)
		must(t, err)
		return routes[0].Src.String()
	}
	if got := source(); got != four.String() {
		t.Fatalf("with a wider scope the source is %s: this test shows nothing", got)
	}
	_, err = put([]netip.Addr{four})
	must(t, err)
	if got := source(); got != "192.0.2.1" {
		t.Errorf("the source is %s", got)
	}
	conn, err := net.ListenPacket("udp", "169.254.20.11:5353")
	must(t, err)
	must(t, conn.Close())
}

// sharing binds as CoreDNS does, so that others can bind the same.
var sharing = net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(err, set)
}}

// A process that shares the port, as CoreDNS permits, is found before it gets
// some of the questions; of this process itself nothing is thought.
func TestAnotherServerIsFound(t *testing.T) {
	testkit.NewNetwork(t)
	_, err := put([]netip.Addr{four})
	must(t, err)
	const address = "169.254.20.11:5353"
	n := &node{addrs: []netip.Addr{four}, port: 5353}
	refused := func(what string) {
		t.Helper()
		if err := n.start(); err == nil || !strings.Contains(err.Error(), "another process of this node answers at "+address) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, n.start())
	udp, err := sharing.ListenPacket(context.Background(), "udp", address)
	must(t, err)
	refused("udp")
	served.Store(true)
	must(t, n.start())
	served.Store(false)
	must(t, udp.Close())
	tcp, err := sharing.Listen(context.Background(), "tcp", address)
	must(t, err)
	refused("tcp")
	must(t, tcp.Close())
	must(t, n.start())
}
