package capture

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// The kernel does with packets what the tracer says. Envoy's place is taken
// by listeners that say whom the client dialled.
func TestKernelAgreesWithTheTracer(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]plan.Config{"default": config(), "bridge netfilter kept": kept()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := testkit.NewNetwork(t)
			pod := addPod(t, node)
			c := starting(t, cfg, testHost(t))
			k := newCluster().serve("web", "10.96.0.1", "10.244.0.5").serve("web6", "fd00:96::1", "fd00:244::5").serve("empty", "10.96.0.2")
			silent := topology.ObjectKey{Namespace: "default", Name: "silent"}
			k.SetService(&topology.Service{Key: silent, InternalLocal: true, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.3")}, Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}}})
			k.SetSlice(&topology.Slice{Key: silent, Service: "silent", Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: 80}}, Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.244.9.9"), Node: "n1", Ready: true, Serving: true}}})
			view := k.view()
			apply(t, c, view, false)
			p := plan.Of(view, cfg)
			seen := map[rules.Fate]int{}
			for _, envoy := range []bool{true, false} {
				var stop func()
				if envoy {
					stop = listen(t, cfg)
				}
				for _, to := range []string{web, "[fd00:96::1]:80", "10.96.0.1:81", api, "10.96.0.3:80", "10.96.9.9:80", "[fd00:96::9]:80"} {
					seen[agree(t, cfg, p, node, true, to, envoy)]++
					seen[agree(t, cfg, p, pod, false, to, envoy)]++
				}
				if envoy {
					stop()
				}
			}
			if seen[rules.ToEnvoy] != 4 || seen[rules.Dropped] != 4 || seen[rules.Refused] != 20 {
				t.Errorf("packets met %v", seen)
			}
		})
	}
}

// agree dials and compares what happens with what Walk says.
func agree(t *testing.T, cfg plan.Config, p *plan.Plan, from *testkit.Network, local bool, to string, envoy bool) rules.Fate {
	t.Helper()
	ap := netip.MustParseAddrPort(to)
	src := netip.MustParseAddr("192.0.2.1")
	if !local {
		src = netip.MustParseAddr("10.244.0.5")
		if ap.Addr().Is6() {
			src = netip.MustParseAddr("fd00:244::5")
		}
	}
	want := rules.Inet(cfg).Walk(p, rules.Packet{
		Src: src, To: topology.Frontend{Addr: ap.Addr(), Port: ap.Port(), Protocol: topology.TCP},
		Local: local, Bridged: !local, NoListen: !envoy,
	})
	patience := 10 * time.Second
	if want.Fate == rules.Dropped {
		patience = 300 * time.Millisecond // silence is what is waited for
	}
	var got rules.Fate
	var dialled, listener string
	must(t, from.Do(func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", to)
		switch {
		case err == nil:
			defer conn.Close()
			got = rules.ToEnvoy
			answer := make([]byte, 200)
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			n, err := conn.Read(answer)
			if err != nil {
				return err
			}
			dialled, listener, _ = strings.Cut(string(answer[:n]), " ")
		case errors.Is(err, syscall.ECONNREFUSED):
			got = rules.Refused
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
			got = rules.Dropped
		default:
			return err
		}
		return nil
	}))
	if got != want.Fate {
		t.Errorf("%s from the node %v, Envoy %v: %s, the tracer says %s", to, local, envoy, got, want.Fate)
		return got
	}
	if got == rules.ToEnvoy {
		_, port, _ := net.SplitHostPort(want.Listener.String())
		if listener != port {
			t.Errorf("%s from the node %v: listener %s, the tracer says %s", to, local, listener, port)
		}
		if want.Packet.To.AddrPort() == ap && dialled != to { // not by NAT
			t.Errorf("%s from the node %v: the listener thinks %s was dialled", to, local, dialled)
		}
	}
	return got
}

// addPod adds a pod on a bridge: 10.244.0.5 and fd00:244::5.
func addPod(t *testing.T, node *testkit.Network) *testkit.Network {
	t.Helper()
	pod := node.Add()
	addBridge(t, "cni0")
	br, err := netlink.LinkByName("cni0")
	must(t, err)
	add := func(l netlink.Link, cidr string) {
		a := parse(t, cidr)
		a.Flags = unix.IFA_F_NODAD
		must(t, netlink.AddrAdd(l, a))
	}
	add(br, "fd00:244::1/64")
	la := netlink.NewLinkAttrs()
	la.Name, la.MasterIndex = "veth0", br.Attrs().Index
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(pod.NS))}))
	veth, err := netlink.LinkByName("veth0")
	must(t, err)
	must(t, netlink.LinkSetUp(veth))
	must(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644))
	must(t, os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644))
	must(t, pod.Do(func() error {
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		add(eth, "10.244.0.5/24")
		add(eth, "fd00:244::5/64")
		if err := netlink.LinkSetUp(eth); err != nil {
			return err
		}
		return errors.Join(
			netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.ParseIP("10.244.0.1")}),
			netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.ParseIP("fd00:244::1")}))
	}))
	// Locally made packets need a route before any hook sees them.
	la = netlink.NewLinkAttrs()
	la.Name = "uplink"
	must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: la}))
	up, err := netlink.LinkByName("uplink")
	must(t, err)
	add(up, "192.0.2.1/24")
	add(up, "2001:db8::1/64")
	must(t, netlink.LinkSetUp(up))
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: up.Attrs().Index, Gw: net.ParseIP("192.0.2.254")}))
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: up.Attrs().Index, Gw: net.ParseIP("2001:db8::254")}))
	return pod
}

// transparently listens as Envoy does, for what is dialled elsewhere.
var transparently = net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) (err error) {
	_ = raw.Control(func(fd uintptr) {
		level, option := unix.SOL_IP, unix.IP_TRANSPARENT
		if network == "tcp6" {
			level, option = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
		}
		err = unix.SetsockoptInt(int(fd), level, option, 1)
	})
	return err
}}

// listen takes the place of Envoy: each listener says what was dialled and
// which port it has.
func listen(t *testing.T, cfg plan.Config) (stop func()) {
	t.Helper()
	var open []net.Listener
	serve := func(lc *net.ListenConfig, network, address string) {
		l, err := lc.Listen(t.Context(), network, address)
		must(t, err)
		open = append(open, l)
		_, port, _ := net.SplitHostPort(address)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(conn.LocalAddr().String() + " " + port))
				_ = conn.Close()
			}
		}()
	}
	p := cfg.Ports
	for _, port := range []uint16{p.Keep(), p.Plain()} {
		serve(&transparently, "tcp4", netip.AddrPortFrom(rules.IPv4.Loopback(), port).String())
		serve(&transparently, "tcp6", netip.AddrPortFrom(rules.IPv6.Loopback(), port).String())
	}
	if cfg.KeepBridgeNetfilter {
		for _, port := range []uint16{p.RedirectKeep(), p.RedirectPlain()} {
			serve(&net.ListenConfig{}, "tcp4", netip.AddrPortFrom(netip.IPv4Unspecified(), port).String())
			serve(&net.ListenConfig{}, "tcp6", netip.AddrPortFrom(netip.IPv6Unspecified(), port).String())
		}
	}
	return func() {
		for _, l := range open {
			_ = l.Close()
		}
	}
}

// Connections to withheld endpoints are closed, others live on.
func TestCloseStale(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	cfg := config()
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	for _, a := range []string{"10.96.0.1/32", "10.244.0.5/32", "10.244.9.9/32", "192.0.2.1/32"} {
		must(t, netlink.AddrAdd(lo, parse(t, a)))
	}
	// A client's connection to a frontend, and two of Envoy's to endpoints.
	connect(t, "192.0.2.1", web, 0)
	withheld := connect(t, "192.0.2.1", "10.244.9.9:8080", cfg.Own())
	offered := connect(t, "192.0.2.1", "10.244.0.5:8080", cfg.Own())
	c := starting(t, cfg, testHost(t))
	access := func(frontend, endpoint netip.AddrPort) topology.Access {
		switch {
		case frontend.String() != web:
			return topology.AccessUnrelated
		case endpoint.String() == "10.244.9.9:8080":
			return topology.AccessDenied
		}
		return topology.AccessAllowed
	}
	n, err := c.CloseStale(access)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		t.Skip("SKIPPED: the kernel has no CONFIG_INET_DIAG_DESTROY")
	}
	must(t, err)
	if n != 1 {
		t.Errorf("%d connections closed, want 1", n)
	}
	if _, err := withheld.Write([]byte("x")); err == nil {
		t.Error("the connection to the withheld endpoint is open")
	}
	if _, err := offered.Write([]byte("x")); err != nil {
		t.Errorf("another connection was closed: %v", err)
	}
	if n, err := c.CloseStale(access); n != 0 || err != nil {
		t.Errorf("a second time: %d, %v", n, err)
	}
}

// connect opens a connection with a mark.
func connect(t *testing.T, from, to string, mark uint32) net.Conn {
	t.Helper()
	with := func(level, option, value int) func(_, _ string, raw syscall.RawConn) error {
		return func(_, _ string, raw syscall.RawConn) error {
			var err error
			_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, value) })
			return err
		}
	}
	accepts := net.ListenConfig{Control: with(unix.SOL_IP, unix.IP_TRANSPARENT, 1)} // as Envoy's
	l, err := accepts.Listen(t.Context(), "tcp", to)
	must(t, err)
	defer l.Close()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Control: with(unix.SOL_SOCKET, unix.SO_MARK, int(mark))}
	dialled, err := d.Dial("tcp", to)
	must(t, err)
	accepted, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { _ = dialled.Close(); _ = accepted.Close() })
	return dialled
}
