package capture

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// behindEnvoy is a lab with a frontend of Envoy's that the kernel serves, too.
func behindEnvoy(t *testing.T) (l *kernelLab, to string, from map[string]*testkit.Network) {
	t.Helper()
	l = newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	to = "10.96.0.1:80"
	apply(t, l.Capture, newCluster().serve("web", "10.96.0.1", "10.244.0.6").view(), false)
	l.put(t, plan.KernelFrontend{Frontend: tcp(to), Tiers: tiers(false, "b")})
	must(t, l.EnvoyAbsent(false))
	return l, to, map[string]*testkit.Network{"10.244.0.5": l.a, "192.0.2.1": l.node, "192.0.2.9": l.outside}
}

// envoy listens at Envoy's ports, and has each served so.
func (l *kernelLab) envoy(t *testing.T, serve func(net.Listener)) (open []net.Listener) {
	t.Helper()
	must(t, l.node.Do(func() error {
		for _, port := range []uint16{l.cfg.Ports.Keep(), l.cfg.Ports.Plain()} {
			ln, err := transparently.Listen(t.Context(), "tcp4", netip.AddrPortFrom(rules.IPv4.Loopback(), port).String())
			must(t, err)
			t.Cleanup(func() { _ = ln.Close() })
			open = append(open, ln)
			go serve(ln)
		}
		return nil
	}))
	return open
}

// hangs has an Envoy at its ports that takes no connection: its queues are full with the first.
func (l *kernelLab) hangs(t *testing.T) {
	t.Helper()
	must(t, l.node.Do(func() error {
		for _, port := range []uint16{l.cfg.Ports.Keep(), l.cfg.Ports.Plain()} {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			t.Cleanup(func() { _ = unix.Close(fd) })
			must(t, unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1))
			must(t, unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: rules.IPv4.Loopback().As4()}))
			must(t, unix.Listen(fd, 0))
		}
		return nil
	}))
}

// Who waits in the queue of an Envoy that hangs is served by the kernel with his next try.
func TestWhoWaitsIsServedByTheKernel(t *testing.T) {
	t.Parallel()
	l, to, from := behindEnvoy(t)
	l.hangs(t)
	const each = 8
	var waiting sync.WaitGroup
	answers := make(chan string, each*len(from))
	for name, ns := range from {
		for range each {
			waiting.Go(func() {
				start := time.Now()
				conn, answer := dial(t, ns, "tcp", "", to, 4*time.Second)
				if conn != nil {
					_ = conn.Close()
				}
				answers <- fmt.Sprintf("%s: %s after %s", name, answer, time.Since(start).Round(time.Millisecond))
			})
		}
	}
	l.untilSYNs(t, to, len(from)*each/2)
	must(t, l.EnvoyAbsent(true))
	waiting.Wait()
	close(answers)
	served := 0
	for answer := range answers { // two or so of each port are in its queue, and stay there
		if strings.Contains(answer, "refused") {
			t.Error(answer)
		}
		if strings.Contains(answer, ": b ") {
			served++
		}
	}
	t.Logf("%d of %d are served", served, each*len(from))
	if served < each*len(from)/2 {
		t.Errorf("only %d of %d are served", served, each*len(from))
	}
}

// untilSYNs waits until conntrack has so many flows to a frontend that nobody has answered.
func (l *kernelLab) untilSYNs(t *testing.T, to string, n int) {
	t.Helper()
	must(t, l.node.Do(func() error {
		conn, err := l.flows.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			list, err := newConntrack(unix.NFNL_SUBSYS_CTNETLINK).abandoned(conn, asked{family: unix.AF_INET}, newEnvoys([]topology.Frontend{tcp(to)}))
			switch {
			case err != nil:
				return err
			case len(list) >= n:
				return nil
			case time.Since(begin) > 20*time.Second:
				return fmt.Errorf("%d SYNs wait, want %d", len(list), n)
			}
		}
	}))
}

// A port whose connection Envoy has ended by RST, as the kernel does for one that is killed, is
// served by the kernel: conntrack would know it for ten seconds more.
func TestAPortOfEnvoysIsServedByTheKernel(t *testing.T) {
	t.Parallel()
	l, to, from := behindEnvoy(t)
	open := l.envoy(t, resetting)
	for ip, ns := range from {
		conn, answer := dial(t, ns, "tcp", ip+":40001", to, 5*time.Second)
		if answer != "envoy" {
			t.Fatalf("%s: %q, want Envoy's answer", ip, answer)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = conn.Write([]byte("x"))
		_, _ = conn.Read(make([]byte, 1)) // its RST
		_ = conn.Close()
	}
	for _, ln := range open {
		_ = ln.Close()
	}
	start := time.Now()
	must(t, l.EnvoyAbsent(true))
	for ip, ns := range from {
		answer := ""
		for !strings.HasPrefix(answer, "b ") && time.Since(start) < 5*time.Second { // conntrack is looked at beside it
			var conn net.Conn
			if conn, answer = dial(t, ns, "tcp", ip+":40001", to, time.Second); conn != nil {
				_ = conn.Close()
			}
		}
		t.Logf("%s: %q, %s after the switch", ip, answer, time.Since(start).Round(time.Millisecond))
		if !strings.HasPrefix(answer, "b ") {
			t.Errorf("%s: %q, want the kernel's endpoint", ip, answer)
		}
	}
}

// A connection that Envoy has goes on, whoever gets the new ones.
func TestConnectionsOfEnvoysGoOn(t *testing.T) {
	t.Parallel()
	l, to, from := behindEnvoy(t)
	l.envoy(t, echoing)
	open := map[string]net.Conn{}
	for ip, ns := range from {
		conn, answer := dial(t, ns, "tcp", ip+":40001", to, 5*time.Second)
		if answer != "envoy" {
			t.Fatalf("%s: %q, want Envoy's answer", ip, answer)
		}
		t.Cleanup(func() { _ = conn.Close() })
		open[ip] = conn
	}
	must(t, l.EnvoyAbsent(true))
	l.flows.ended.Wait() // for all of its looks
	for ip, conn := range open {
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		b := make([]byte, 1)
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
		if _, err := conn.Read(b); err != nil || b[0] != 'x' {
			t.Errorf("%s: %q, %v, want what was said", ip, b, err)
		}
	}
}

// echoing answers, and says again what it hears.
func echoing(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte("envoy"))
		go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
	}
}

// FuzzFlow: whatever the kernel says of a flow is read, or is none.
func FuzzFlow(f *testing.F) {
	f.Add([]byte{8, 0, 4, 0, 1, 2, 3, 4})
	f.Fuzz(func(_ *testing.T, item []byte) {
		_, orig, reply := parseTuples(item)
		newEnvoys(nil).left(orig, reply, stateOf(item))
	})
}

// resetting answers, and ends by RST.
func resetting(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte("envoy"))
		_, _ = conn.Read(make([]byte, 1)) // that it is to
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// What of conntrack's Envoy's path left, by who answers and the state.
func TestWhatEnvoyLeft(t *testing.T) {
	e := newEnvoys([]topology.Frontend{tcp("10.96.0.1:80")}, netip.MustParseAddrPort("10.244.0.1:15003"))
	flow := func(to, answerer string) (orig, reply tuple) {
		orig = tuple{unix.IPPROTO_TCP, netip.MustParseAddrPort("10.244.0.5:40001"), netip.MustParseAddrPort(to)}
		return orig, tuple{orig.proto, netip.MustParseAddrPort(answerer), orig.src}
	}
	const sent, established, closes, closed = 1, 3, 6, 8
	for name, c := range map[string]struct {
		to, by string
		state  byte
		left   bool
	}{
		"not taken":                {"10.96.0.1:80", "10.96.0.1:80", sent, true},
		"not taken, of a bridge":   {"10.96.0.1:80", "10.244.0.1:15003", sent, true},
		"open":                     {"10.96.0.1:80", "10.96.0.1:80", established, false},
		"at its end":               {"10.96.0.1:80", "10.96.0.1:80", closes, false},
		"ended":                    {"10.96.0.1:80", "10.96.0.1:80", closed, true},
		"the kernel's":             {"10.96.0.1:80", "10.244.0.6:8080", sent, false},
		"the kernel's, and ended":  {"10.96.0.1:80", "10.244.0.6:8080", closed, false},
		"the kernel's, by a port":  {"10.96.0.1:80", "10.244.0.6:15003", sent, false},
		"offloaded":                {"10.96.0.1:80", "10.96.0.1:80", 0, false},
		"of another frontend":      {"10.96.0.2:80", "10.96.0.2:80", sent, false},
		"of another, for a bridge": {"10.96.0.2:80", "10.244.0.1:15003", sent, false},
	} {
		if orig, reply := flow(c.to, c.by); e.left(orig, reply, c.state) != c.left {
			t.Errorf("%s: %v, want %v", name, !c.left, c.left)
		}
	}
}
