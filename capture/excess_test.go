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

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// Who has opened all that Envoy takes before anybody counted keeps its share,
// the oldest of it, and is refused more before the rest is closed; nobody else
// loses a connection. Where Envoy takes more, nobody does.
func TestRoomIsMadeForOthers(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	pod := addPod(t, node)
	cfg := config()
	c := starting(t, cfg, testHost(t))
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	holding(t, cfg.Ports.Keep())
	holding(t, cfg.Ports.Plain())
	const share = 5
	all := 40
	var log bytes.Buffer
	clients := NewClients(c, func() (int, int) { return share, all }, slog.New(slog.NewTextHandler(&log, nil)))
	clients.destroy = func(conn *nl.Conn, s socket) error {
		list, err := c.table.conn.GetSetElements(c.table.sets[rules.Over.For(rules.IPv4)])
		if err != nil || len(list) != 1 {
			t.Errorf("closed while %d clients were refused: %v", len(list), err)
		}
		return destroy(conn, s)
	}
	dial := func(from *testkit.Network, n int) (list []net.Conn) {
		t.Helper()
		for range n {
			conn, err := dialWeb(from)
			must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			list = append(list, conn)
		}
		return list
	}
	now := time.Now()
	pod5 := netip.MustParseAddr("10.244.0.5")
	look := func(ofPod, ofOthers int) {
		t.Helper()
		now = now.Add(2 * overRefresh)
		must(t, clients.look(now))
		held := counted(t, clients, now)
		others := -held[pod5]
		for _, n := range held {
			others += n
		}
		if held[pod5] != ofPod || others != ofOthers {
			t.Fatalf("Envoy takes %d: %v, want %d of the pod and %d of others", all, held, ofPod, ofOthers)
		}
	}
	greedy := dial(pod, 16)
	dial(node, 2)
	look(16, 2)
	if closed := clients.removed.Load(); closed != 0 {
		t.Errorf("%d were closed while Envoy took more", closed)
	}
	all = 20 // nine tenths of it are open
	look(share, 2)
	for i, conn := range greedy[share:] {
		must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("connection %d: %v", share+i+1, err)
		}
	}
	if closed := clients.removed.Load(); closed != 11 {
		t.Errorf("%d were closed, want 11", closed)
	}
	if _, err := dialWeb(pod); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("one more: %v", err)
	}
	dial(node, 2)
	look(share, 4)
	if text := log.String(); strings.Count(text, "hardly any") != 1 || !strings.Contains(text, "connections=11 which=[10.244.0.5]") {
		t.Errorf("the log says:\n%s", text)
	}
}

// Where the kernel closes none, more is refused and that is all; one that does
// not close keeps no other open. The log is told now and then.
func TestExcessThatDoesNotClose(t *testing.T) {
	var log bytes.Buffer
	var tried int
	outcome := map[byte]error{}
	clients := &Clients{log: slog.New(slog.NewTextHandler(&log, nil)), excess: map[netip.Addr]int{}, behind: newBehind(nil), destroy: func(_ *nl.Conn, s socket) error {
		tried++
		return outcome[s.id[0]]
	}}
	excess := make([]socket, 5)
	for i := range excess {
		excess[i] = socket{id: socketID{byte(i)}, peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(i)}), 4000)}
	}
	now := time.Now()
	room := func(closed uint64) {
		t.Helper()
		tried, clients.unclosed = 0, nil
		before := clients.removed.Load()
		clients.makeRoom(nil, excess, now)
		if got := clients.removed.Load() - before; got != closed {
			t.Errorf("%d were closed, want %d", got, closed)
		}
	}
	outcome[0] = unix.EOPNOTSUPP
	room(0)
	if tried != 1 || clients.unclosed != nil || log.Len() > 0 {
		t.Errorf("a kernel that closes none was asked %d times: %v\n%s", tried, clients.unclosed, log.String())
	}
	outcome[0], outcome[1], outcome[2] = unix.EPERM, unix.ENOENT, unix.ESTALE
	for range 3 {
		room(2)
		if tried != len(excess) || !errors.Is(clients.unclosed, unix.EPERM) {
			t.Errorf("%d of %d were tried: %v", tried, len(excess), clients.unclosed)
		}
		now = now.Add(sayEvery / 3)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "connections=2 which=\"[10.244.0.3 10.244.0.4]\"") {
		t.Errorf("%d lines in a minute:\n%s", n, log.String())
	}
	clients.makeRoom(nil, nil, now)
	if !strings.Contains(log.String(), "connections=4 ") {
		t.Errorf("after a minute:\n%s", log.String())
	}
}
