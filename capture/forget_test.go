package capture

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// inPodsName dials from an address of pod a, as Envoy does where the mark is its own.
func inPodsName(from string, mark uint32) *net.Dialer {
	return &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)), Timeout: 20 * time.Second, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark)),
				unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
		}), err)
	}}
}

// asPod opens a connection to the far pod in the name of pod a.
func (l *kernelLab) asPod(t *testing.T, from string, mark uint32) net.Conn {
	t.Helper()
	to := "10.244.9.9:8080"
	if strings.HasPrefix(from, "[") {
		to = "[fd00:244:9::9]:8080"
	}
	var conn net.Conn
	must(t, l.node.Do(func() (err error) { conn, err = inPodsName(from, mark).DialContext(t.Context(), "tcp", to); return err }))
	t.Cleanup(func() { conn.Close() })
	if got := ask(conn, 5*time.Second); got != "far "+from {
		t.Fatalf("as %s: %q", from, got)
	}
	return conn
}

// redial dials who never answers, and again, as Envoy does, until it was refused a few times, or is
// stopped, and says how often it was refused.
func (l *kernelLab) redial(t *testing.T, from string) (stop func() (refused int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	tried, done, refused := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(done)
		_ = l.node.Do(func() error {
			for n := range 4 {
				if n == 0 {
					time.AfterFunc(100*time.Millisecond, func() { close(tried) })
				}
				if _, err := inPodsName(from, l.cfg.Own()).DialContext(ctx, "tcp", "10.244.9.77:9999"); errors.Is(err, context.Canceled) {
					break
				}
				refused++
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
	}()
	<-tried
	stop = func() int { cancel(); <-done; return refused }
	t.Cleanup(func() { stop() })
	return stop
}

// closesFirst is a server that ends what it is asked at once, and who asks it all the while.
func (l *kernelLab) closesFirst(t *testing.T, at string) (stop func() (asked int)) {
	t.Helper()
	var server net.Listener
	must(t, l.node.Do(func() (err error) { server, err = net.Listen("tcp", at); return err }))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
	asked := 0
	wg.Go(func() {
		_ = l.node.Do(func() error {
			for ; ctx.Err() == nil; asked++ {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
				if err != nil {
					return err
				}
				_, _ = conn.Read(make([]byte, 1)) // its end
				_ = conn.Close()
			}
			return nil
		})
	})
	return func() int {
		cancel()
		_ = server.Close()
		wg.Wait()
		return asked
	}
}

// proxied is a connection of another transparent proxy of the node, with the mark of Envoy.
func (l *kernelLab) proxied(t *testing.T) (proxy net.Conn) {
	t.Helper()
	must(t, l.node.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		_, others, err := net.ParseCIDR("198.51.100.0/24")
		if err != nil {
			return err
		}
		err = netlink.RouteReplace(&netlink.Route{Dst: others, LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST})
		if err != nil {
			return err
		}
		server, err := net.Listen("tcp", "10.244.0.1:5353")
		if err != nil {
			return err
		}
		t.Cleanup(func() { server.Close() })
		go func() {
			if conn, err := server.Accept(); err == nil {
				_, _ = io.Copy(conn, conn)
			}
		}()
		proxy, err = inPodsName("198.51.100.7:0", l.cfg.Own()).DialContext(t.Context(), "tcp", server.Addr().String())
		return err
	}))
	t.Cleanup(func() { proxy.Close() })
	return proxy
}

// A cleanup that is ended while it waits has put back all but early demux. The next one does not
// know the pods any more: it ends nobody's connection, and waits for Envoy's end.
func TestCleanupThatWasEnded(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.endedCleanup(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dialled := make(chan error, 1)
	go func() { // who never answers
		_ = l.node.Do(func() error {
			_, err := inPodsName("10.244.0.5:40002", l.cfg.Own()).DialContext(ctx, "tcp", "10.244.9.77:9999")
			dialled <- err
			return nil
		})
	}()
	l.awaitDial(t)
	clean := func(patience time.Duration) (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		must(t, l.node.Do(func() error { err = Cleanup(ctx, l.cfg, l.host); return nil }))
		return err
	}
	if err := clean(time.Second); err == nil || !strings.Contains(err.Error(), "1 connections of Envoy's in the names of pods are there still: end Envoy") {
		t.Errorf("beside what Envoy dials: %v", err)
	}
	select {
	case err := <-dialled:
		t.Errorf("it was ended: %v", err)
	default:
	}
	cancel() // as Envoy's end does
	<-dialled
	must(t, clean(timeWait))
	if value, err := os.ReadFile("/proc/sys/net/ipv4/tcp_early_demux"); strings.TrimSpace(string(value)) != "1" {
		t.Errorf("early demux is %q, %v", value, err)
	}
}

// awaitDial waits until the kernel tells of a connection in a pod's name.
func (l *kernelLab) awaitDial(t *testing.T) {
	conn, err := sockdiag.Dial()
	must(t, err)
	defer conn.Close()
	all := names{mark: l.cfg.Own(), pods: l.cfg.PodCIDRs, known: true}
	for deadline, held := time.Now().Add(5*time.Second), 0; held == 0; time.Sleep(10 * time.Millisecond) {
		must(t, l.node.Do(func() error { list, err := all.held(conn); held = len(list); return err }))
		if time.Now().After(deadline) {
			t.Fatal("nobody dials")
		}
	}
}

// endedCleanup is one that is ended while it waits.
func (l *kernelLab) endedCleanup(t *testing.T) {
	values := func() (list []string) {
		for _, key := range []string{"conf/cni0/send_redirects", "tcp_early_demux"} {
			value, err := os.ReadFile("/proc/sys/net/ipv4/" + key)
			must(t, err)
			list = append(list, strings.TrimSpace(string(value)))
		}
		return list
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := values()
	err := Cleanup(ctx, l.cfg, l.host)
	if err == nil || !strings.Contains(err.Error(), "run gridmesh-agent cleanup again") {
		t.Errorf("of a cleanup that was ended: %v", err)
	}
	if after := values(); !slices.Equal(before, []string{"0", "0"}) || !slices.Equal(after, []string{"1", "0"}) {
		t.Errorf("sysctls were %v, and are %v after a cleanup that was ended", before, after)
	}
}

// A look may take longer than the time between two: its caller's end counts all the same.
func TestASlowLookOutlivesNoCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // which of two that are ready is taken is chance
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := awaitNone(ctx, func() (int, error) { time.Sleep(2 * forgetEvery); return 0, nil })
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("a cleanup that was ended saw all that it had to: %v", err)
			}
		}
	})
}

// After a cleanup a pod may use a port at once that Envoy used in its name: of what Envoy has
// closed (TIME-WAIT), and of what it still holds, which ends. What is the node's own goes on.
func TestCleanupForgetsClients(t *testing.T) {
	t.Parallel()
	for _, by := range []func(l *kernelLab) error{
		func(l *kernelLab) error { return Cleanup(t.Context(), l.cfg, l.host) },
		func(l *kernelLab) error { return errors.Join(PutBack(l.host), Cleanup(t.Context(), l.cfg, l.host)) },
	} {
		l := newKernelLab(t, kernelConfig())
		l.serve(t, "far", l.far)
		const closed, open, six = "10.244.0.5:40001", "10.244.0.5:40002", "[fd00:244::5]:40003"
		l.asPod(t, closed, l.cfg.Own()).Close()
		l.asPod(t, six, l.cfg.Own()).Close()
		held, others := l.asPod(t, open, l.cfg.Own()), l.asPod(t, "10.244.0.5:40004", 0xb00|l.cfg.Own())
		redialled := l.redial(t, "10.244.0.5:0")
		own, _ := dial(t, l.node, "tcp", "", "10.244.9.9:8080", 5*time.Second)
		t.Cleanup(func() { own.Close() })
		must(t, l.node.Do(func() error { return by(l) }))
		if redialled() == 0 { // one of a busy machine's may come when nobody looks any more
			t.Error("who dials in the pod's name was not refused")
		}
		if value, err := os.ReadFile("/proc/sys/net/ipv4/tcp_early_demux"); strings.TrimSpace(string(value)) != "1" {
			t.Fatalf("early demux is %q, %v: nothing is tried", value, err)
		}
		for from, to := range map[string]string{closed: "10.244.9.9:8080", open: "10.244.9.9:8080", six: "[fd00:244:9::9]:8080"} {
			if name, source := once(t, l.a, from, to); name != "far" || source != from {
				t.Errorf("the pod from %s: %q, %q", from, name, source)
			}
		}
		_ = held.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := held.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNABORTED) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("what Envoy held in the pod's name: %v, want its end", err)
		}
		_ = own.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := own.Write([]byte("x")); err != nil {
			t.Errorf("the node's own connection: %v", err)
		}
		if _, err := own.Read(make([]byte, 1)); err != nil {
			t.Errorf("the node's own connection: %v", err)
		}
		must(t, others.(*net.TCPConn).SetLinger(0)) // its end reaches the far pod at once
		_ = others.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := others.Write([]byte("x")); err != nil {
			t.Errorf("a connection of another transparent proxy: %v", err)
		}
		conn, err := sockdiag.Dial()
		must(t, err)
		defer conn.Close()
		all := names{mark: l.cfg.Own(), pods: l.cfg.PodCIDRs, known: true}
		must(t, l.node.Do(func() error {
			left, err := all.held(conn)
			if len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			return err
		}))
	}
}

// Who closes first, at an address of this node that no interface has, and another proxy that
// dials in others' names with the same mark: a cleanup waits for none of them, and ends none.
func TestCleanupLeavesStrangers(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "far", l.far)
	stop := l.closesFirst(t, "127.0.0.53:53")
	proxy := l.proxied(t)
	for _, what := range []string{"gridmesh", "nothing"} {
		start := time.Now()
		must(t, l.node.Do(func() error { return Cleanup(t.Context(), l.cfg, l.host) }))
		took := time.Since(start)
		t.Logf("a cleanup of %s took %s", what, took.Round(time.Millisecond))
		if took > timeWait/2 {
			t.Errorf("a cleanup of %s took %s", what, took)
		}
	}
	if n := stop(); n < 2 {
		t.Errorf("%d connections were closed meanwhile: nothing is tried", n)
	}
	_ = proxy.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := proxy.Write([]byte("x")); err != nil {
		t.Errorf("a connection of another transparent proxy: %v", err)
	}
	if _, err := proxy.Read(make([]byte, 1)); err != nil {
		t.Errorf("a connection of another transparent proxy: %v", err)
	}
}

// It takes two looks in a row that find none, whatever was found and failed before.
func TestAwaitNone(t *testing.T) {
	broken := errors.New("broken for the test")
	for name, c := range map[string]struct {
		left  []int // of each look; -1: it fails
		looks int
		want  string // of the error
	}{
		"none":              {[]int{0, 0}, 2, ""},
		"it dials again":    {[]int{3, 0, 1, 0, 0}, 5, ""},
		"a look that fails": {[]int{0, -1, 0, 0}, 4, ""},
		"it stays":          {[]int{2}, 6, "2 connections"},
		"it stays unseen":   {[]int{-1}, 6, broken.Error()},
		"never":             {[]int{-2}, 1, errUnseen.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*forgetEvery+forgetEvery/2)
			defer cancel()
			looks := 0
			err := awaitNone(ctx, func() (int, error) {
				n := c.left[min(looks, len(c.left)-1)]
				looks++
				switch n {
				case -1:
					return 0, broken
				case -2:
					return 0, errUnseen
				}
				return n, nil
			})
			if looks != c.looks || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %d looks and %v, want %d and %q", name, looks, err, c.looks, c.want)
			}
		})
	}
}

// Whose sockets are Envoy's, where the ranges of pods are known, and where nobody knows them.
func TestClientsNames(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("192.0.2.1")}
	known := names{mark: 2, pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:244::/64")}, known: true}
	unknown := names{mark: 2}
	open := func(local string, mark uint32) sockdiag.Socket {
		return sockdiag.Socket{Local: netip.MustParseAddrPort(local), Mark: mark, State: 1 << 1, Inode: 7}
	}
	closed := func(local string, mark, state uint32) sockdiag.Socket {
		return sockdiag.Socket{Local: netip.MustParseAddrPort(local), Mark: mark, State: state}
	}
	for name, c := range map[string]struct {
		s                sockdiag.Socket
		known, otherwise bool
	}{
		"open":                          {open("10.244.0.5:1", 2), true, true},
		"open, IPv6":                    {open("[fd00:244::5]:1", 2), true, true},
		"of another mark":               {open("10.244.0.5:1", 0xb02), false, false},
		"of none":                       {open("10.244.0.5:1", 0), false, false},
		"no pod's":                      {open("198.51.100.7:1", 2), false, true},
		"the node's":                    {open("192.0.2.1:1", 2), false, false},
		"the node's among pods":         {open("10.244.0.1:1", 2), false, false},
		"loopback":                      {closed("127.0.0.53:53", 0, sockdiag.TimeWait), false, false},
		"closed":                        {closed("10.244.0.5:1", 2, sockdiag.TimeWait), true, true},
		"closed, by an old kernel":      {closed("10.244.0.5:1", 0, sockdiag.TimeWait), true, true},
		"half closed, by an old kernel": {closed("10.244.0.5:1", 0, sockdiag.FinWait2), true, true},
		"closed, of another mark":       {closed("10.244.0.5:1", 0xb02, sockdiag.TimeWait), false, false},
	} {
		if got := known.has(c.s, own); got != c.known {
			t.Errorf("%s, known: %v", name, got)
		}
		if got := unknown.has(c.s, own); got != c.otherwise {
			t.Errorf("%s, unknown: %v", name, got)
		}
	}
}
