package capture

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

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

// redial dials who never answers, and again, as Envoy does, until it was refused a few times.
func (l *kernelLab) redial(t *testing.T, from string) {
	t.Helper()
	tried, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = l.node.Do(func() error {
			for n := range 4 {
				if n == 0 {
					time.AfterFunc(100*time.Millisecond, func() { close(tried) })
				}
				_, _ = inPodsName(from, l.cfg.Own()).DialContext(t.Context(), "tcp", "10.244.9.77:9999")
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
	}()
	<-tried
	t.Cleanup(func() { <-done })
}

// After a cleanup a pod may use a port at once that Envoy used in its name: of what Envoy has
// closed (TIME-WAIT), and of what it still holds, which ends. What is the node's own goes on.
func TestCleanupForgetsClients(t *testing.T) {
	t.Parallel()
	for _, by := range []func(l *kernelLab) error{
		func(l *kernelLab) error { return Cleanup(l.cfg, l.host) },
		func(l *kernelLab) error { return errors.Join(PutBack(l.host), Cleanup(l.cfg, l.host)) },
	} {
		l := newKernelLab(t, kernelConfig())
		l.serve(t, "far", l.far)
		const closed, open, six = "10.244.0.5:40001", "10.244.0.5:40002", "[fd00:244::5]:40003"
		l.asPod(t, closed, l.cfg.Own()).Close()
		l.asPod(t, six, l.cfg.Own()).Close()
		held, others := l.asPod(t, open, l.cfg.Own()), l.asPod(t, "10.244.0.5:40004", 0xb00|l.cfg.Own())
		l.redial(t, "10.244.0.5:0")
		own, _ := dial(t, l.node, "tcp", "", "10.244.9.9:8080", 5*time.Second)
		t.Cleanup(func() { own.Close() })
		must(t, l.node.Do(func() error { return by(l) }))
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
		if left, err := l.inClientsNames(conn); len(left) > 0 || err != nil {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}
