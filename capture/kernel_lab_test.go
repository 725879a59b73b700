package capture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// kernelLab is a node with two pods on a bridge, a pod of another node, and
// somebody from elsewhere, where the node's default route leads to:
//
//	a 10.244.0.5, b 10.244.0.6 ── cni0 10.244.0.1 ─ node ─ 10.99.0.1 ── far 10.244.9.9
//	                                                 └──── 192.0.2.1 ── outside 192.0.2.9, .99
//
// and the same in IPv6 (fd00:244::5, fd00:244::6, fd00:244:9::9, 2001:db8::9).
type kernelLab struct {
	*Capture
	cfg                      plan.Config
	node, a, b, far, outside *testkit.Network
	host                     Host
}

func kernelConfig() plan.Config {
	c := config()
	c.Kernel = &plan.Kernel{NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}}
	return c
}

func newKernelLab(t *testing.T, cfg plan.Config) *kernelLab {
	t.Helper()
	l := &kernelLab{cfg: cfg, node: testkit.NewNetwork(t), host: testHost(t)}
	addBridge(t, "cni0")
	address(t, "cni0", "fd00:244::1/64")
	l.a = l.wire(t, "cni0", "poda", nil, "10.244.0.5/24", "fd00:244::5/64")
	l.b = l.wire(t, "cni0", "podb", nil, "10.244.0.6/24", "fd00:244::6/64")
	l.far = l.wire(t, "", "far0", []string{"10.99.0.1/24", "fd00:99::1/64"}, "10.99.0.2/24", "fd00:99::2/64", "10.244.9.9/32", "fd00:244:9::9/128")
	l.outside = l.wire(t, "", "up0", []string{"192.0.2.1/24", "2001:db8::1/64"}, "192.0.2.9/24", "2001:db8::9/64", "192.0.2.99/24")
	for _, key := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		must(t, os.WriteFile("/proc/sys/net/"+key, []byte("1"), 0o644))
	}
	via := func(dst, gw string) {
		r := &netlink.Route{Gw: net.ParseIP(gw)}
		if dst != "" {
			_, r.Dst, _ = net.ParseCIDR(dst)
		}
		must(t, netlink.RouteAdd(r))
	}
	via("10.244.9.0/24", "10.99.0.2")
	via("fd00:244:9::/64", "fd00:99::2")
	via("", "192.0.2.9")
	via("", "2001:db8::9")
	l.route(t, l.a, "10.244.0.1", "fd00:244::1")
	l.route(t, l.b, "10.244.0.1", "fd00:244::1")
	l.route(t, l.far, "10.99.0.1", "fd00:99::1")
	l.route(t, l.outside, "192.0.2.1", "2001:db8::1")
	l.Capture = starting(t, cfg, l.host)
	return l
}

// address adds one to an interface of the present network.
func address(t *testing.T, name, cidr string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	a := parse(t, cidr)
	a.Flags = unix.IFA_F_NODAD
	must(t, netlink.AddrAdd(link, a))
}

// wire adds a network with an interface eth0, on a bridge or with addresses on
// the node's side.
func (l *kernelLab) wire(t *testing.T, bridge, name string, own []string, addrs ...string) *testkit.Network {
	t.Helper()
	n := l.node.Add()
	la := netlink.NewLinkAttrs()
	la.Name = name
	if bridge != "" {
		br, err := netlink.LinkByName(bridge)
		must(t, err)
		la.MasterIndex = br.Attrs().Index
	}
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(n.NS))}))
	link, err := netlink.LinkByName(name)
	must(t, err)
	must(t, netlink.LinkSetUp(link))
	if bridge != "" {
		must(t, netlink.LinkSetHairpin(link, true)) // as CNI plugins do, for what a bridge translates by itself
	}
	for _, cidr := range own {
		address(t, name, cidr)
	}
	must(t, n.Do(func() error {
		for _, cidr := range addrs {
			address(t, "eth0", cidr)
		}
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(eth)
	}))
	return n
}

func (l *kernelLab) route(t *testing.T, n *testkit.Network, gateways ...string) {
	t.Helper()
	must(t, n.Do(func() error {
		var errs []error
		for _, gw := range gateways {
			errs = append(errs, netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gw)}))
		}
		return errors.Join(errs...)
	}))
}

// serve answers in a network, TCP and UDP, on port 8080: the name, and who asks.
// Then TCP says again what it is told.
func (l *kernelLab) serve(t *testing.T, name string, n *testkit.Network) {
	t.Helper()
	must(t, n.Do(func() error {
		tcp, err := net.Listen("tcp", ":8080")
		if err != nil {
			return err
		}
		t.Cleanup(func() { tcp.Close() })
		go func() {
			for {
				conn, err := tcp.Accept()
				if err != nil {
					return
				}
				go answer(conn, name)
			}
		}()
		// One for each address: it is from there that the answer comes.
		for _, ipv6 := range []bool{false, true} {
			udp, err := net.ListenPacket("udp", tiers(ipv6, name)[1][0].String())
			if err != nil {
				return err
			}
			t.Cleanup(func() { udp.Close() })
			go func() {
				b := make([]byte, 2000)
				for {
					n, from, err := udp.ReadFrom(b)
					if err != nil {
						return
					}
					_, _ = udp.WriteTo([]byte(name+" "+from.String()+" "+string(b[:n])), from)
				}
			}()
		}
		return nil
	}))
}

func answer(conn net.Conn, name string) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	b := []byte(name + " " + conn.RemoteAddr().String())
	for {
		if _, err := conn.Write(b); err != nil {
			return
		}
		b = b[:cap(b)]
		n, err := conn.Read(b)
		if err != nil {
			return
		}
		b = b[:n]
	}
}

// Answers to dialling that come from nobody.
const (
	isRefused = "refused"
	isSilent  = "silence"
)

// dial asks from an address and port of a network, the port 0 for any.
func dial(t *testing.T, from *testkit.Network, network, local, to string, patience time.Duration) (conn net.Conn, answer string) {
	t.Helper()
	must(t, from.Do(func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var d net.Dialer
		if local != "" {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(local))
			if network == "udp" {
				d.LocalAddr = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(local))
			}
		}
		c, err := d.DialContext(ctx, network, to)
		if err != nil {
			answer = failure(err)
			return nil
		}
		conn = c
		answer = ask(conn, patience)
		return nil
	}))
	return conn, answer
}

// questions numbers them: who asks again may be answered twice.
var questions atomic.Int64

// ask returns what comes back; TCP servers speak first.
func ask(conn net.Conn, patience time.Duration) string {
	_, isUDP := conn.(*net.UDPConn)
	if isUDP {
		question := fmt.Sprint(questions.Add(1))
		return strings.TrimSuffix(askAgain(conn, []byte(question), patience), " "+question)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	b := make([]byte, 200)
	n, err := conn.Read(b)
	if err != nil {
		return failure(err)
	}
	return string(b[:n])
}

// askAgain says something until it is answered, as everybody does who speaks no
// TCP: the kernel sends one client few ICMP errors a second.
func askAgain(conn net.Conn, question []byte, patience time.Duration) string {
	for deadline := time.Now().Add(patience); ; {
		_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
		// A process is told EPERM of what is dropped before it leaves, and then why.
		if _, err := conn.Write(question); err != nil && !errors.Is(err, syscall.EPERM) {
			return failure(err)
		}
		b := make([]byte, 200)
		n, err := conn.Read(b)
		if err == nil && !strings.HasSuffix(string(b[:n]), " "+string(question)) {
			continue // to one before
		}
		if err == nil {
			return string(b[:n])
		}
		if answer := failure(err); answer != isSilent || time.Now().After(deadline) {
			return answer
		}
	}
}

func failure(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return isRefused
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return isSilent
	}
	return err.Error()
}

// once dials by TCP and hangs up, and returns name and address of who answered whom.
func once(t *testing.T, from *testkit.Network, local, to string) (name, source string) {
	t.Helper()
	conn, answer := dial(t, from, "tcp", local, to, 5*time.Second)
	if conn != nil {
		conn.Close()
	}
	name, source, _ = strings.Cut(answer, " ")
	return name, source
}

func tcp(address string) topology.Frontend { return onPort(address, topology.TCP) }
func udp(address string) topology.Frontend { return onPort(address, topology.UDP) }

func onPort(address string, p topology.Protocol) topology.Frontend {
	ap := netip.MustParseAddrPort(address)
	return topology.Frontend{Addr: ap.Addr(), Port: ap.Port(), Protocol: p}
}

// tiers is one tier: a, b, far or none, of one family.
func tiers(ipv6 bool, names ...string) [][]netip.AddrPort {
	addrs := map[string][2]string{"a": {"10.244.0.5", "fd00:244::5"}, "b": {"10.244.0.6", "fd00:244::6"}, "far": {"10.244.9.9", "fd00:244:9::9"}}
	var list []netip.AddrPort
	for _, n := range names {
		i := 0
		if ipv6 {
			i = 1
		}
		list = append(list, netip.AddrPortFrom(netip.MustParseAddr(addrs[n][i]), 8080))
	}
	return [][]netip.AddrPort{nil, list}
}

// put gives the kernel path one Service for each frontend.
func (l *kernelLab) put(t *testing.T, list ...plan.KernelFrontend) {
	t.Helper()
	changed := map[string][]plan.KernelFrontend{}
	for _, f := range list {
		f.Session = "default/web:80"
		changed[fmt.Sprint(f.Frontend)] = []plan.KernelFrontend{f}
	}
	must(t, l.setKernel(changed, false))
}
