package capture

import (
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
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

// Where one list cannot be read, an error says so, and the others count all the same.
func TestLinksOfPodsThatCannotAllBeRead(t *testing.T) {
	const veth, tun, bridge = 7, 8, 3
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	kinds := map[string]int{"veth": veth, "tun": tun}
	lists := map[int][]netlink.Neigh{
		unix.AF_BRIDGE: {{LinkIndex: veth, MasterIndex: bridge, HardwareAddr: mac}},
		unix.AF_INET:   {{LinkIndex: bridge, IP: net.ParseIP("10.244.0.5"), HardwareAddr: mac}, {LinkIndex: tun, IP: net.ParseIP("10.244.0.6")}},
		unix.AF_INET6:  {{LinkIndex: veth, IP: net.ParseIP("fd00:244::5"), HardwareAddr: mac}, {LinkIndex: tun, IP: net.ParseIP("fd00:244::6")}},
	}
	all := map[string]int{"10.244.0.5": veth, "10.244.0.6": tun, "fd00:244::5": veth, "fd00:244::6": tun}
	broken := errors.New("broken for the test")
	for name, tc := range map[string]struct {
		kind   string // that cannot be read
		family int
		lacks  []string
	}{
		"all are read":     {},
		"no IPv4":          {family: unix.AF_INET, lacks: []string{"10.244.0.5", "10.244.0.6"}},
		"no IPv6":          {family: unix.AF_INET6, lacks: []string{"fd00:244::5", "fd00:244::6"}},
		"no bridges":       {family: unix.AF_BRIDGE, lacks: []string{"10.244.0.5"}},
		"no links of veth": {kind: "veth", lacks: []string{"10.244.0.5", "fd00:244::5"}},
		"no links of tun":  {kind: "tun", lacks: []string{"10.244.0.6", "fd00:244::6"}},
	} {
		at, err := linksBy(func(kind string) ([]links.Link, error) {
			if kind == tc.kind {
				return nil, broken
			}
			return []links.Link{{Index: kinds[kind]}}, nil
		}, func(family int) ([]netlink.Neigh, error) {
			if family == tc.family {
				return nil, broken
			}
			return lists[family], nil
		})
		if errors.Is(err, broken) != (len(tc.lacks) > 0) {
			t.Errorf("%s: %v", name, err)
		}
		want := maps.Clone(all)
		for _, ip := range tc.lacks {
			delete(want, ip)
		}
		got := map[string]int{}
		for ip, link := range at {
			got[ip.String()] = link
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// What is known of an address stays while it holds connections, also when the kernel
// has forgotten it, unless the kernel knows it behind another link; and an address that
// is gone stands for nobody: it may be another pod's next.
func TestWhoStandsForAPod(t *testing.T) {
	const first, second, third, foreign, local = "10.244.0.1", "10.244.0.2", "10.244.0.3", "10.244.9.1", "fe80::1"
	pods := atomic.Pointer[[]netip.Prefix]{}
	pods.Store(&podCIDRs)
	b := newBehind(&pods)
	at, asked, now := map[netip.Addr]int{}, 0, time.Unix(1000, 0)
	var torn error
	b.links = func() (map[netip.Addr]int, error) { asked++; return at, torn }
	knows := func(links map[string]int) {
		at = map[netip.Addr]int{}
		for ip, link := range links {
			at[netip.MustParseAddr(ip)] = link
		}
	}
	step := func(what string, held []string, want map[string]string, wantAsked int) {
		t.Helper()
		asked = 0
		var open []sockdiag.Socket
		for _, ip := range held {
			peer := netip.MustParseAddr(ip)
			open = append(open, sockdiag.Socket{Peer: netip.AddrPortFrom(peer, 4000)}, sockdiag.Socket{Peer: netip.AddrPortFrom(peer, 4001)})
		}
		if err := b.follow(open, now); (err != nil) != (torn != nil && asked > 0) {
			t.Errorf("%s: %v", what, err)
		}
		for ip, stands := range want {
			if got := b.client(netip.MustParseAddr(ip)); got != netip.MustParseAddr(stands) {
				t.Errorf("%s: %s stands for %s, want %s", what, got, ip, stands)
			}
		}
		if asked != wantAsked {
			t.Errorf("%s: asked %d times, want %d", what, asked, wantAsked)
		}
	}
	each := map[string]string{first: first, second: second}
	step("nothing is known", []string{first, second}, each, 1)
	step("nor soon after", []string{first, second}, each, 0)
	now = now.Add(linksEvery)
	knows(map[string]int{first: 7, second: 7, foreign: 7, local: 7, third: 8})
	one := map[string]string{first: first, second: first, third: third, foreign: foreign}
	step("two behind one link", []string{first, second, third, foreign}, one, 1)
	knows(nil)
	now = now.Add(linksEvery)
	step("the kernel forgot", []string{first, second, third}, one, 1)
	step("the first one is gone", []string{second}, map[string]string{second: second}, 0)
	knows(map[string]int{first: 9, local: 7})
	step("and is another pod's", []string{second, first, local}, map[string]string{first: first, second: second, local: second}, 1)
	knows(map[string]int{second: 9})
	step("not asked yet", []string{second, first, local}, map[string]string{first: first, second: second, local: second}, 0)
	now = now.Add(linksEvery)
	torn = errors.New("the other family's list is torn")
	step("the second one is the other pod's, too", []string{second, first, local}, map[string]string{first: first, second: first, local: local}, 1)
	torn = nil
	step("all are gone", nil, map[string]string{second: second, local: local}, 0)
	if len(b.link)+len(b.stands) > 0 {
		t.Errorf("left are %v, %v", b.link, b.stands)
	}
}

// An address that a pod had before, and still holds a connection of, counts for the pod
// that has it now: nobody takes others' shares by having had their addresses.
func TestAnAddressThatAnotherPodHasNow(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	pod := addPod(t, node)
	must(t, pod.Do(func() error { address(t, "eth0", "10.244.0.7/24"); return nil }))
	cfg := config()
	c := starting(t, cfg, testHost(t))
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	holding(t, rules.IPv4, cfg.Ports.Keep())
	const share = 4
	clients := NewClients(c, func() (int, int) { return share, 0 }, slog.New(slog.DiscardHandler))
	dial := func(from *testkit.Network, ip string) error {
		conn, err := dialFrom(from, ip, web)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		return err
	}
	must(t, dial(pod, "10.244.0.7"))
	for range share + 2 {
		must(t, dial(pod, "10.244.0.5"))
	}
	now := time.Now()
	must(t, clients.look(now))
	if err := dial(pod, "10.244.0.7"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("one more of a pod over its share: %v", err)
	}
	must(t, pod.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		must(t, err)
		addr, err := netlink.ParseAddr("10.244.0.7/24")
		must(t, err)
		return netlink.AddrDel(link, addr)
	}))
	lab := &kernelLab{node: node}
	other := lab.wire(t, "cni0", "veth1", nil, "10.244.0.7/24")
	lab.route(t, other, "10.244.0.1")
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = dial(other, "10.244.0.7"); err == nil {
			break
		}
		now = now.Add(linksEvery)
		must(t, clients.look(now))
	}
	must(t, err)
}
