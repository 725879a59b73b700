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
)

// asPod opens a connection to the far pod as Envoy does in the name of pod a.
func (l *kernelLab) asPod(t *testing.T, from string) net.Conn {
	t.Helper()
	var conn net.Conn
	must(t, l.node.Do(func() (err error) {
		local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
		to := "10.244.9.9:8080"
		if local.IP.To4() == nil {
			to = "[fd00:244:9::9]:8080"
		}
		d := net.Dialer{LocalAddr: local, Timeout: 5 * time.Second, Control: func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) {
				err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(l.cfg.Own())),
					unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1),
					unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
			})
		}}
		must(t, err)
		conn, err = d.Dial("tcp", to)
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	if got := ask(conn, 5*time.Second); got != "far "+from {
		t.Fatalf("as %s: %q", from, got)
	}
	return conn
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
		l.asPod(t, closed).Close()
		l.asPod(t, six).Close()
		held := l.asPod(t, open)
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
	}
}
