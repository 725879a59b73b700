package capture

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// A client that is gone while data is on its way to it does not hold its
// connections for a quarter of an hour; one that is there and does not read
// keeps them, however long. TCP_USER_TIMEOUT would end both.
func TestClientsThatAreGone(t *testing.T) {
	node := testkit.NewNetwork(t)
	pod := addPod(t, node)
	cfg := config()
	c := starting(t, cfg, testHost(t))
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	fromPod, fromNode := accepting(t, cfg.Ports.Keep()), accepting(t, cfg.Ports.Plain())
	dial := func(from *testkit.Network) {
		must(t, from.Do(func() error {
			conn, err := net.DialTimeout("tcp", web, 30*time.Second)
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
			return err
		}))
	}
	dial(pod)
	dial(node)
	gone, slow := <-fromPod, <-fromNode
	veth, err := netlink.LinkByName("veth0")
	must(t, err)
	must(t, netlink.LinkSetDown(veth))
	_, err = gone.Write([]byte("nobody reads this"))
	must(t, err)
	fill(t, slow)

	clients := NewClients(c, func() (share, all int) { return 1, 0 }, slog.New(slog.DiscardHandler))
	now := time.Now()
	for deadline := time.Now().Add(2 * time.Minute); counted(t, clients, now)[netip.MustParseAddr("10.244.0.5")] == 1; now = now.Add(2 * time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("a client that is gone holds its connection")
		}
		time.Sleep(20 * time.Millisecond) // the kernel asks three times
	}
	must(t, gone.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := gone.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNABORTED) {
		t.Errorf("Envoy's end: %v", err)
	}
	must(t, slow.SetWriteDeadline(time.Now().Add(100*time.Millisecond))) // that of before is over: the write would not be tried
	if _, err := slow.Write([]byte("x")); !errors.Is(err, syscall.EAGAIN) && !isTimeout(err) {
		t.Errorf("who does not read: %v", err)
	}
	if all := counted(t, clients, now); len(all) != 1 {
		t.Errorf("%v, want the client that does not read alone", all)
	}
}

// accepting takes the place of Envoy, and gives away what tproxy gives it.
func accepting(t *testing.T, port uint16) <-chan net.Conn {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1) })
		return err
	}}
	l, err := lc.Listen(t.Context(), "tcp4", netip.AddrPortFrom(rules.IPv4.Loopback(), port).String())
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	conns := make(chan net.Conn)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			conns <- conn
		}
	}()
	return conns
}

// fill writes until the other end has no more room: twice in turn nothing was taken.
func fill(t *testing.T, conn net.Conn) {
	t.Helper()
	data := make([]byte, 1<<20)
	for nothing := 0; nothing < 2; {
		must(t, conn.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
		n, err := conn.Write(data)
		switch {
		case err != nil && !isTimeout(err):
			t.Fatal(err)
		case n > 0:
			nothing = 0
		default:
			nothing++
		}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// A connection that the kernel does not close counts on and keeps nobody from
// being counted; one that is gone meanwhile does not. The log is told now and then.
func TestConnectionsThatDoNotClose(t *testing.T) {
	open := make([]sockdiag.Socket, 4)
	for i := range open {
		open[i] = sockdiag.Socket{Timer: timerResend, Retries: unansweredFrom, ID: sockdiag.ID{byte(i)}}
	}
	open[3].Retries = 0
	var log bytes.Buffer
	clients := &Clients{log: slog.New(slog.NewTextHandler(&log, nil)), destroy: func(_ *sockdiag.Conn, s sockdiag.Socket) error {
		return []error{unix.EPERM, unix.ESTALE, nil}[s.ID[0]]
	}}
	now := time.Now()
	for end := now.Add(clientTimeout); now.Before(end); now = now.Add(time.Second) {
		if left := clients.closeDead(nil, open, now); len(left) != len(open) || clients.unclosed != nil {
			t.Fatalf("too early: %v, %v", left, clients.unclosed)
		}
	}
	for range 30 {
		left := clients.closeDead(nil, open, now)
		if len(left) != 2 || left[0].ID != open[0].ID || left[1].ID != open[3].ID || !errors.Is(clients.unclosed, unix.EPERM) {
			t.Errorf("left %v, %v", left, clients.unclosed)
		}
		now = now.Add(time.Second)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines in half a minute:\n%s", n, log.String())
	}
	now = now.Add(sayEvery / 2)
	clients.closeDead(nil, nil, now)
	if !strings.Contains(log.String(), "=58") {
		t.Errorf("after a minute:\n%s", log.String())
	}
}
