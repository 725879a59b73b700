package capture

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// crowd is a node with a pod, of whose connections one takes the place of Envoy.
type crowd struct {
	*Clients
	node, pod *testkit.Network
	web       string
	addr      netip.Addr // the pod's
	all       int        // that Envoy takes
	log       bytes.Buffer
	now       time.Time
}

// crowdShare is what one client may have there.
const crowdShare = 5

func newCrowd(t *testing.T, f rules.Family) *crowd {
	t.Helper()
	o := &crowd{node: testkit.NewNetwork(t), all: 40, now: time.Now()}
	o.pod = addPod(t, o.node)
	service, endpoint := "10.96.0.1", "10.244.0.5"
	if f == rules.IPv6 {
		service, endpoint = "fd00:96::1", "fd00:244::5"
	}
	o.web, o.addr = net.JoinHostPort(service, "80"), netip.MustParseAddr(endpoint)
	cfg := config()
	c := starting(t, cfg, testHost(t))
	apply(t, c, newCluster().serve("web", service, endpoint).view(), false)
	holding(t, f, cfg.Ports.Keep())
	holding(t, f, cfg.Ports.Plain())
	o.Clients = NewClients(c, func() (int, int) { return crowdShare, o.all }, slog.New(slog.NewTextHandler(&o.log, nil)))
	o.destroy = func(conn *sockdiag.Conn, s sockdiag.Socket) error {
		list, err := c.table.conn.GetSetElements(c.table.sets[rules.Over.For(f)])
		if err != nil || len(list) != 1 {
			t.Errorf("closed while %d clients were refused: %v", len(list), err)
		}
		return conn.Reset(s)
	}
	return o
}

func (o *crowd) dial(t *testing.T, from *testkit.Network, n int) (list []net.Conn) {
	t.Helper()
	for range n {
		conn, err := dialHeld(from, o.web)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		list = append(list, conn)
	}
	return list
}

// looks counts what the pod has then, and others have.
func (o *crowd) looks(t *testing.T, ofPod, ofOthers int) {
	t.Helper()
	o.now = o.now.Add(2 * overRefresh)
	must(t, o.look(o.now))
	held := counted(t, o.Clients, o.now)
	others := -held[o.addr]
	for _, n := range held {
		others += n
	}
	if held[o.addr] != ofPod || others != ofOthers {
		t.Fatalf("Envoy takes %d: %v, want %d of the pod and %d of others", o.all, held, ofPod, ofOthers)
	}
}

// Who has opened all that Envoy takes before anybody counted keeps its share,
// the oldest of it, and is refused more before the rest is closed; nobody else
// loses a connection. Where Envoy takes more, nobody does.
func TestRoomIsMadeForOthers(t *testing.T) {
	t.Parallel()
	for _, f := range rules.Families {
		t.Run("IPv"+string(f), func(t *testing.T) {
			t.Parallel()
			o := newCrowd(t, f)
			greedy := o.dial(t, o.pod, 16)
			o.dial(t, o.node, 2)
			o.looks(t, 16, 2)
			if closed := o.removed.Load(); closed != 0 {
				t.Errorf("%d were closed while Envoy took more", closed)
			}
			o.all = 20 // nine tenths of it are open
			o.looks(t, crowdShare, 2)
			for i, conn := range greedy[crowdShare:] {
				must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
				if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Fatalf("connection %d: %v", crowdShare+i+1, err)
				}
			}
			if closed := o.removed.Load(); closed != 11 {
				t.Errorf("%d were closed, want 11", closed)
			}
			if _, err := dialHeld(o.pod, o.web); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("one more: %v", err)
			}
			o.dial(t, o.node, 2)
			o.looks(t, crowdShare, 4)
			if text := o.log.String(); strings.Count(text, "hardly any") != 1 || !strings.Contains(text, "connections=11 which=["+o.addr.String()+"]") {
				t.Errorf("the log says:\n%s", text)
			}
		})
	}
}

// A kernel that closes none leaves everything open, and more is refused all the
// same. One that can closes no socket of a family that it does not know to close,
// and answers as one does that can close none.
func TestAKernelThatClosesNone(t *testing.T) {
	t.Parallel()
	for _, f := range rules.Families {
		t.Run("IPv"+string(f), func(t *testing.T) {
			t.Parallel()
			o := newCrowd(t, f)
			closes := o.destroy
			var tried []error
			o.destroy = func(conn *sockdiag.Conn, s sockdiag.Socket) error {
				s.Family = unix.AF_UNIX
				err := closes(conn, s)
				if errors.Is(err, unix.ENOENT) {
					t.Skip("this kernel does not tell of Unix sockets")
				}
				tried = append(tried, err)
				return err
			}
			o.dial(t, o.pod, 16)
			o.all = 16
			o.looks(t, 16, 0)
			if len(tried) != 1 || !errors.Is(tried[0], unix.EOPNOTSUPP) || o.removed.Load() != 0 {
				t.Errorf("tried: %v, and %d were closed", tried, o.removed.Load())
			}
			if _, err := dialHeld(o.pod, o.web); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("one more: %v", err)
			}
			o.dial(t, o.node, 2)
			if o.unclosed != nil || strings.Contains(o.log.String(), "hardly any") {
				t.Errorf("%v\n%s", o.unclosed, o.log.String())
			}
		})
	}
}

// Where the kernel closes none, more is refused and that is all; one that does
// not close keeps no other open. The log is told now and then.
func TestExcessThatDoesNotClose(t *testing.T) {
	var log bytes.Buffer
	var tried int
	outcome := map[byte]error{}
	clients := &Clients{log: slog.New(slog.NewTextHandler(&log, nil)), excess: map[netip.Addr]int{}, destroy: func(_ *sockdiag.Conn, s sockdiag.Socket) error {
		tried++
		return outcome[s.ID[0]]
	}}
	excess := make([]sockdiag.Socket, 5)
	for i := range excess {
		excess[i] = sockdiag.Socket{ID: sockdiag.ID{byte(i)}, Peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(i)}), 4000)}
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

// What was seen first counts as older, whatever the kernel numbers it: a core that made
// nothing for long goes on with old numbers, and all begin anew after four billion. Of what
// was seen at once the number says it.
func TestWhichIsOlder(t *testing.T) {
	clients := &Clients{}
	sock := func(id byte, inode uint32) sockdiag.Socket { return sockdiag.Socket{ID: sockdiag.ID{id}, Inode: inode} }
	a, b, late, later := sock(1, 1<<31), sock(2, 7), sock(3, 3), sock(4, 9)
	clients.number([]sockdiag.Socket{a, b})
	clients.number([]sockdiag.Socket{a, b, late})
	clients.number([]sockdiag.Socket{later, late, b, a})
	all := []sockdiag.Socket{late, later, a, b}
	slices.SortFunc(all, func(x, y sockdiag.Socket) int {
		_, m := clients.opened(x)
		_, n := clients.opened(y)
		return cmp.Compare(m, n)
	})
	if want := []sockdiag.Socket{b, a, late, later}; !slices.Equal(all, want) {
		t.Errorf("the oldest first: %v, want %v", all, want)
	}
	clients.number([]sockdiag.Socket{later})
	if len(clients.first) != 1 {
		t.Errorf("%d are remembered, want 1", len(clients.first))
	}
}
