package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// slowLink joins two namespaces by a link on which every packet takes its
// time: two tun devices, and this program between them. It returns when the
// devices are there; they are gone at the end of the test.
func slowLink(t *testing.T, a, b *netlab.NS, each time.Duration) (device string) {
	t.Helper()
	const name = "slow0"
	x, y := openTun(t, a, name), openTun(t, b, name)
	go carry(x, y, each)
	go carry(y, x, each)
	t.Cleanup(func() { _ = x.Close(); _ = y.Close() })
	return name
}

func openTun(t *testing.T, ns *netlab.NS, name string) *os.File {
	t.Helper()
	var fd int
	must(t, ns.Do(func() (err error) {
		// The device is made where the file was opened.
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open /dev/net/tun: %w", err)
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	}))
	must(t, unix.SetNonblock(fd, true)) // so that Close ends a Read
	return os.NewFile(uintptr(fd), "/dev/net/tun")
}

// carry delivers packets in order, each after a while, until a device is gone.
func carry(from, to *os.File, each time.Duration) {
	type packet struct {
		due  time.Time
		data []byte
	}
	queue := make(chan packet, 1000)
	defer close(queue)
	go func() {
		for p := range queue {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data)
		}
	}()
	buf := make([]byte, 2048)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		queue <- packet{time.Now().Add(each), append([]byte(nil), buf[:n]...)}
	}
}

// route leads to prefixes by a device, from an address of its own if it is valid.
func route(t *testing.T, ns *netlab.NS, device string, own netip.Addr, to string) {
	t.Helper()
	must(t, ns.Do(func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		if own.IsValid() {
			address, err := netlink.ParseAddr(own.String() + "/32")
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, address); err != nil {
				return err
			}
		}
		_, prefix, err := net.ParseCIDR(to)
		if err != nil {
			return err
		}
		return netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: prefix, Scope: netlink.SCOPE_LINK})
	}))
}

// slowTrip is what a round trip to a far site takes, longer than the connect
// timeout of a unit.
const slowTrip = 500 * time.Millisecond

// farSite is an app of this name at an address that a node reaches by a slow
// link alone.
func farSite(t *testing.T, near *edge.Node, name string, address netip.Addr) {
	t.Helper()
	far, err := netlab.NewNS(name)
	must(t, err)
	t.Cleanup(func() { must(t, far.Close()) })
	device := slowLink(t, near.NS, far, slowTrip/2)
	route(t, near.NS, device, netip.Addr{}, address.String()+"/32")
	route(t, far, device, address, "0.0.0.0/0")
	app, err := edge.StartApp(far, name, 8080)
	must(t, err)
	t.Cleanup(app.Stop)
}

// An endpoint whose answers take longer than the connect timeout of a unit is
// reached where nothing nearer is, and left for what is nearer when it comes.
func TestFarEndpointBeyondTheConnectTimeout(t *testing.T) {
	f := deploy(t, "far", `["unit","*"]`)
	from, address := f.pods["a-1"].NS, netip.MustParseAddr("10.99.7.2")
	farSite(t, named(t, "a-1"), "far-away", address)
	direct, err := edge.Ask(from, "tcp", netip.AddrPortFrom(address, 8080), answers)
	must(t, err)
	if direct.Took < 2*slowTrip { // to connect, and to answer
		t.Fatalf("the link is not slow: %s", direct.Took)
	}

	answeredBy := func(prefix string) {
		t.Helper()
		wait.Eventually(t, func() error {
			a, err := edge.Ask(from, "tcp", f.at(0), 5*time.Second)
			if err == nil && !strings.HasPrefix(a.Name, prefix) {
				err = fmt.Errorf("answered by %s, want %s", a.Name, prefix)
			}
			return err
		})
	}
	unit := backend{f.pods["a-2"].IP, "a-2"}
	f.ends = []backend{{address, "b-1"}}
	w.state.service(f.service)
	must(t, w.state.write())
	answeredBy("far-away")
	for range 5 {
		a, err := edge.Ask(from, "tcp", f.at(0), answers)
		must(t, err)
		t.Logf("%s, directly %s", a.Took, direct.Took)
	}
	f.ends = append(f.ends, unit)
	w.state.service(f.service)
	must(t, w.state.write())
	answeredBy("far-a-2")
	f.ends = f.ends[:1]
	w.state.service(f.service)
	must(t, w.state.write())
	answeredBy("far-away")
}

// Where the endpoints of the unit are in the view, and all of them are dead in
// silence, the whole Service has the unit's connect timeout: an endpoint that is
// further than that is not reached, and who dials is told so in the end. An agent
// with a longer --connect-timeout reaches it (docs/adr/0009, which has the figures).
func TestFarEndpointBehindDeadOnes(t *testing.T) {
	f := deploy(t, "behind", `["unit","*"]`)
	node, from := named(t, "a-1"), f.pods["a-1"]
	address := netip.MustParseAddr("10.99.7.2")
	farSite(t, node, "far-behind", address)
	second, err := named(t, "a-2").AddPod("behind-second")
	must(t, err)
	t.Cleanup(func() { must(t, second.Remove()) })
	f.ends = []backend{{address, "b-1"}}
	for _, dead := range []*netlab.Pod{f.pods["a-2"], second} {
		dropFrom(t, dead.NS, from.IP)
		f.ends = append(f.ends, backend{dead.IP, "a-2"})
	}
	w.state.service(f.service)
	must(t, w.state.write())
	holds := func() {
		t.Helper()
		wait.Eventually(t, func() error {
			text, err := node.Admin("/clusters")
			for _, e := range f.ends {
				if end := f.at(0).String() + "::" + netip.AddrPortFrom(e.ip, 8080).String() + "::"; err == nil && !strings.Contains(text, end) {
					err = fmt.Errorf("Envoy does not hold %s", end)
				}
			}
			return err
		})
	}
	holds()

	start := time.Now()
	a, err := edge.Ask(from.NS, "tcp", f.at(0), 5*7400*time.Millisecond)
	took := time.Since(start)
	t.Logf("with %s: %v after %s", connectTimeout, err, took)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("answered by %q: %v; docs/limits.md says that connections end", a.Name, err)
	}

	kept := node.Flags
	t.Cleanup(func() { anew(t, node, kept...) })
	anew(t, node, append(kept[:len(kept):len(kept)], "--connect-timeout", "1s")...)
	holds()
	for range 4 {
		a, err := edge.Ask(from.NS, "tcp", f.at(0), 5*4100*time.Millisecond)
		if err != nil || a.Name != "far-behind" {
			t.Errorf("with 1s: answered by %q: %v", a.Name, err)
		}
		t.Logf("with 1s: %s", a.Took)
	}
}
