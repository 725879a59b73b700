package capture

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// A pod that gives itself addresses, of either family, has one share with all of them;
// its neighbour on the bridge has its own.
func TestAPodOfManyAddresses(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	pod := addPod(t, node)
	lab := &kernelLab{node: node}
	other := lab.wire(t, "cni0", "veth1", nil, "10.244.0.6/24")
	lab.route(t, other, "10.244.0.1")
	own := []string{"10.244.0.5", "10.244.0.11", "10.244.0.12", "fd00:244::5", "fd00:244::11", "fd00:244::12", "fd00:244::13", "fd00:244::14"}
	must(t, pod.Do(func() error {
		for _, ip := range own {
			if bits := map[bool]string{true: "/24", false: "/64"}[net.ParseIP(ip).To4() != nil]; ip != "10.244.0.5" && ip != "fd00:244::5" {
				address(t, "eth0", ip+bits)
			}
		}
		return nil
	}))
	const web6 = "[fd00:96::1]:80"
	cfg := config()
	c := starting(t, cfg, testHost(t))
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").serve("web6", "fd00:96::1", "fd00:244::5").view(), false)
	holding(t, rules.IPv6, cfg.Ports.Keep())
	holding(t, rules.IPv4, cfg.Ports.Keep())
	const share, all = 4, 20
	clients := NewClients(c, func() (int, int) { return share, all }, slog.New(slog.DiscardHandler))
	dial := func(from *testkit.Network, ip string) error {
		to := web
		if net.ParseIP(ip).To4() == nil {
			to = web6
		}
		conn, err := dialFrom(from, ip, to)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		return err
	}
	for range 2 {
		for _, ip := range own {
			must(t, dial(pod, ip))
		}
		must(t, dial(other, "10.244.0.6"))
	}
	now := time.Now()
	must(t, clients.look(now))
	left := counted(t, clients, now)
	ofOther := netip.MustParseAddr("10.244.0.6")
	total := 0
	for _, n := range left {
		total += n
	}
	if left[ofOther] != 2 || total != 2+share {
		t.Errorf("left are %v, want %d of the pod and 2 of %s", left, share, ofOther)
	}
	for _, ip := range own {
		if err := dial(pod, ip); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("one more of %s: %v", ip, err)
		}
	}
	must(t, dial(other, "10.244.0.6"))
}

// Only a link that is a pod's own tells that addresses are one pod's: not a port of the
// bridge behind which a network is.
func TestLinksOfPods(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	addPod(t, node)
	bridge, err := netlink.LinkByName("cni0")
	must(t, err)
	pod, err := netlink.LinkByName("veth0")
	must(t, err)
	la := netlink.NewLinkAttrs()
	la.Name, la.MasterIndex = "vx0", bridge.Attrs().Index
	must(t, netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: la, VxlanId: 7, Port: 8472}))
	network, err := netlink.LinkByName("vx0")
	must(t, err)
	must(t, netlink.LinkSetUp(network))
	neighbour := func(link netlink.Link, port netlink.Link, ip string, mac byte) netip.Addr {
		t.Helper()
		hw := net.HardwareAddr{2, 0, 0, 0, 0, mac}
		must(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.ParseIP(ip), HardwareAddr: hw, State: netlink.NUD_PERMANENT}))
		if port != nil {
			must(t, netlink.NeighAppend(&netlink.Neigh{LinkIndex: port.Attrs().Index, Family: unix.AF_BRIDGE, HardwareAddr: hw, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER}))
		}
		return netip.MustParseAddr(ip)
	}
	uplink, err := netlink.LinkByName("uplink")
	must(t, err)
	want := map[netip.Addr]int{
		neighbour(bridge, pod, "10.244.0.20", 1):    pod.Attrs().Index,
		neighbour(bridge, pod, "fd00:244::20", 2):   pod.Attrs().Index, // another MAC, the same pod
		neighbour(pod, nil, "10.244.0.21", 3):       pod.Attrs().Index, // a routed one
		neighbour(bridge, network, "10.244.3.1", 4): 0,
		neighbour(bridge, nil, "10.244.0.22", 5):    0, // nobody has heard of it
		neighbour(uplink, nil, "192.0.2.9", 6):      0,
	}
	at, err := podLinks()
	must(t, err)
	for ip, link := range want {
		if at[ip] != link {
			t.Errorf("%s is behind link %d, want %d", ip, at[ip], link)
		}
	}
}

// What is known of an address stays while it holds connections, also when the kernel
// has forgotten it, and the address that stands for a pod stays while any of them does.
func TestWhoStandsForAPod(t *testing.T) {
	ips := map[string]netip.Addr{}
	for _, ip := range []string{"10.244.0.1", "10.244.0.2", "10.244.0.3", "10.244.9.1", "fe80::1"} {
		ips[ip] = netip.MustParseAddr(ip)
	}
	pods := atomic.Pointer[[]netip.Prefix]{}
	pods.Store(&podCIDRs)
	b := newBehind(&pods)
	at, asked := map[netip.Addr]int{}, 0
	b.links = func() (map[netip.Addr]int, error) { asked++; return at, nil }
	step := func(what string, held []string, want map[string]string, wantAsked int) {
		t.Helper()
		asked = 0
		var open []socket
		for _, ip := range held {
			open = append(open, socket{peer: netip.AddrPortFrom(ips[ip], 4000)}, socket{peer: netip.AddrPortFrom(ips[ip], 4001)})
		}
		must(t, b.follow(open))
		for ip, stands := range want {
			if got := b.client(ips[ip]); got != ips[stands] {
				t.Errorf("%s: %s stands for %s, want %s", what, got, ip, stands)
			}
		}
		if asked != wantAsked {
			t.Errorf("%s: asked %d times, want %d", what, asked, wantAsked)
		}
	}
	each := map[string]string{"10.244.0.1": "10.244.0.1", "10.244.0.2": "10.244.0.2"}
	step("nothing is known", []string{"10.244.0.1", "10.244.0.2"}, each, 1)
	at = map[netip.Addr]int{ips["10.244.0.1"]: 7, ips["10.244.0.2"]: 7, ips["10.244.9.1"]: 7, ips["fe80::1"]: 7, ips["10.244.0.3"]: 8}
	one := map[string]string{"10.244.0.1": "10.244.0.1", "10.244.0.2": "10.244.0.1", "10.244.0.3": "10.244.0.3", "10.244.9.1": "10.244.9.1"}
	step("two behind one link", []string{"10.244.0.1", "10.244.0.2", "10.244.0.3", "10.244.9.1"}, one, 1)
	at = nil
	step("the kernel forgot", []string{"10.244.0.1", "10.244.0.2", "10.244.0.3"}, one, 0)
	step("the first one is gone", []string{"10.244.0.2"}, map[string]string{"10.244.0.2": "10.244.0.1"}, 0)
	at = map[netip.Addr]int{ips["fe80::1"]: 7}
	step("one without a range", []string{"10.244.0.2", "fe80::1"}, map[string]string{"fe80::1": "10.244.0.1"}, 1)
	step("all are gone", nil, map[string]string{"10.244.0.2": "10.244.0.2", "fe80::1": "fe80::1"}, 0)
	if len(b.of)+len(b.stands) > 0 {
		t.Errorf("left are %v, %v", b.of, b.stands)
	}
}
