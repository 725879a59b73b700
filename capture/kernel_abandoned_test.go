package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	nl "github.com/mdlayher/netlink"
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
	answers := dialling(t, from, to, each, 4*time.Second)
	l.untilSYNs(t, to, len(from)*each/2)
	must(t, l.EnvoyAbsent(true))
	halfAreServed(t, answers) // two or so of each port are in its queue, and stay there
}

// dialling has each of them dial so many times, and tells what they are answered, until all are.
func dialling(t *testing.T, from map[string]*testkit.Network, to string, each int, patience time.Duration) <-chan string {
	t.Helper()
	var waiting sync.WaitGroup
	answers := make(chan string, each*len(from))
	for name, ns := range from {
		for range each {
			waiting.Go(func() {
				start := time.Now()
				conn, answer := dial(t, ns, "tcp", "", to, patience)
				if conn != nil {
					_ = conn.Close()
				}
				answers <- fmt.Sprintf("%s: %s after %s", name, answer, time.Since(start).Round(time.Millisecond))
			})
		}
	}
	go func() {
		waiting.Wait()
		close(answers)
	}()
	return answers
}

// halfAreServed reports an error where fewer are, or somebody is refused.
func halfAreServed(t *testing.T, answers <-chan string) {
	t.Helper()
	served := 0
	for answer := range answers {
		if strings.Contains(answer, "refused") {
			t.Error(answer)
		}
		if strings.Contains(answer, ": b ") {
			served++
		}
	}
	t.Logf("%d of %d are served", served, cap(answers))
	if served < cap(answers)/2 {
		t.Errorf("only %d of %d are served", served, cap(answers))
	}
}

// Who tries again between the switch and the look at conntrack waits on: what conntrack still knows no NAT translates,
// and at its frontend's address the guard would refuse it.
func TestWhoTriesAgainBeforeItIsForgottenWaits(t *testing.T) {
	t.Parallel()
	l, to, from := behindEnvoy(t)
	l.hangs(t)
	look, forget := make(chan struct{}), l.flows.abandoned.forget
	l.flows.abandoned.forget = func(ctx context.Context, conn *nl.Conn, e envoys) (bool, error) {
		select {
		case <-look:
			return forget(ctx, conn, e)
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	const each = 4 // of which two or so are in a port's queue, and stay there
	answers := dialling(t, from, to, each, 16*time.Second)
	l.untilSYNs(t, to, len(from)*each/2)
	must(t, l.EnvoyAbsent(true))
	select {
	case answer := <-answers:
		t.Fatalf("while nobody looked: %s", answer)
	case <-time.After(2500 * time.Millisecond): // they try again after 1, 3, 7 and 15 s
	}
	close(look)
	halfAreServed(t, answers)
}

// An Envoy that hangs ends what it holds when it is killed, long after the switch: its
// clients' ports are served after the next look, and not when conntrack forgets them by itself,
// which is after ten seconds on a node, and here after an hour.
func TestWhatEnvoyEndsLaterIsForgotten(t *testing.T) {
	t.Parallel()
	l, to, from := behindEnvoy(t)
	l.remembers(t, time.Hour)
	open := l.envoy(t, resetting)
	conn, answer := dial(t, from["10.244.0.5"], "tcp", "10.244.0.5:40001", to, 5*time.Second)
	if answer != "envoy" {
		t.Fatalf("%q, want Envoy's answer", answer)
	}
	looks := l.looks()
	must(t, l.EnvoyAbsent(true))
	for range 2 { // those of the switch
		<-looks
	}
	isReset(conn)
	for _, ln := range open {
		_ = ln.Close()
	}
	ended := time.Now()
	for len(looks) > 0 { // those of before
		<-looks
	}
	for range 2 { // one may have begun before
		<-looks
	}
	seen := time.Since(ended)
	conn, answer = dial(t, from["10.244.0.5"], "tcp", "10.244.0.5:40001", to, time.Minute)
	if conn != nil {
		_ = conn.Close()
	}
	if t.Logf("looked at within %s of its RST, answered %s later", seen, time.Since(ended)-seen); !strings.HasPrefix(answer, "b ") {
		t.Errorf("%q after a look, want the kernel's endpoint", answer)
	}
}

// remembers has conntrack of the node know for so long what was ended by RST.
func (l *kernelLab) remembers(t *testing.T, ended time.Duration) {
	t.Helper()
	must(t, l.node.Do(func() error {
		return os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close", fmt.Append(nil, int(ended.Seconds())), 0o644)
	}))
}

// servedAgain dials until the kernel's endpoint answers, and returns how long that took.
func servedAgain(t *testing.T, from *testkit.Network, at, to string) time.Duration {
	t.Helper()
	start := time.Now()
	for answer := ""; !strings.HasPrefix(answer, "b "); {
		var conn net.Conn
		if conn, answer = dial(t, from, "tcp", at, to, time.Second); conn != nil {
			_ = conn.Close()
		}
		if time.Since(start) > 30*time.Second {
			t.Fatalf("not served: %q", answer)
		}
	}
	return time.Since(start).Round(time.Millisecond)
}

// Where the switch is there before the first view, what the run before left is looked for
// once it is known which frontends there are.
func TestWhatARunBeforeLeftIsForgotten(t *testing.T) {
	t.Parallel()
	l, to, _ := behindEnvoy(t)
	c, err := New(l.cfg, l.host)
	must(t, err)
	t.Cleanup(c.flows.stop)
	looks := make(chan envoys, 100)
	c.flows.abandoned.forget = func(_ context.Context, _ *nl.Conn, e envoys) (bool, error) {
		looks <- e
		return false, nil
	}
	must(t, errors.Join(c.EnvoyAbsent(true), c.Install(nil)))
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.6").view(), false)
	for deadline := time.After(20 * time.Second); ; {
		select {
		case e := <-looks:
			if e.frontends[netip.MustParseAddrPort(to)] {
				return
			}
		case <-deadline:
			t.Fatal("nobody looks for what the run before left")
		}
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
		isReset(conn)
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
	looks := l.looks()
	must(t, l.EnvoyAbsent(true))
	for range 3 {
		<-looks
	}
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

// looks tells of each look for what Envoy's path left.
func (l *kernelLab) looks() <-chan bool {
	looks, forget := make(chan bool, 100), l.flows.abandoned.forget
	l.flows.abandoned.forget = func(ctx context.Context, conn *nl.Conn, e envoys) (bool, error) {
		more, err := forget(ctx, conn, e)
		select {
		case looks <- true:
		default:
		}
		return more, err
	}
	return looks
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

// isReset has who is resetting end a connection.
func isReset(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = conn.Write([]byte("x"))
	_, _ = conn.Read(make([]byte, 1)) // its RST
	_ = conn.Close()
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
