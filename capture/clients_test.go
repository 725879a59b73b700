package capture

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// holding takes the place of Envoy: it accepts what tproxy gives it, and keeps it.
func holding(t *testing.T, f rules.Family, port uint16) {
	t.Helper()
	keeping(t, transparently, netip.AddrPortFrom(f.Loopback(), port))
}

// keeping accepts connections and keeps them until the client ends them, or the test.
func keeping(t *testing.T, lc net.ListenConfig, at netip.AddrPort) {
	t.Helper()
	l, err := lc.Listen(t.Context(), "tcp", at.String())
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		inOrder(t)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer context.AfterFunc(t.Context(), func() { _ = conn.Close() })()
				_, _ = conn.Write([]byte("x"))
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
}

// inOrder keeps the caller to one core for as long as it runs: of one core, the
// kernel's numbers of what is accepted go upwards.
func inOrder(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the caller
	keepTo(t, cores(t)[0])
}

// cores are those that the caller may run on.
func cores(t *testing.T) (list []int) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil || may.Count() == 0 {
		t.Errorf("on which cores this runs: %v", err)
		return []int{0}
	}
	for core := 0; len(list) < may.Count(); core++ {
		if may.IsSet(core) {
			list = append(list, core)
		}
	}
	return list
}

// keepTo has the present thread run on one core, where the kernel handles what it sends, too.
func keepTo(t *testing.T, core int) {
	var one unix.CPUSet
	one.Set(core)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Errorf("keep to one core: %v", err)
	}
}

// dialWeb opens a connection to web that whoever is in the place of Envoy has.
func dialWeb(from *testkit.Network) (net.Conn, error) { return dialHeld(from, web) }

// dialHeld is dialWeb for any address.
func dialHeld(from *testkit.Network, to string) (conn net.Conn, err error) {
	err = from.Do(func() error {
		if conn, err = net.DialTimeout("tcp", to, 10*time.Second); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	})
	return conn, err
}

// counted is how many connections clients have, as a look counts them.
func counted(t *testing.T, clients *Clients, now time.Time) map[netip.Addr]int {
	t.Helper()
	conn, err := sockdiag.Dial()
	must(t, err)
	defer conn.Close()
	open, err := clients.open(conn, now)
	must(t, err)
	held := map[netip.Addr]int{}
	for _, s := range open {
		held[s.Peer.Addr()]++
	}
	return held
}

// A client over its share is refused at once and counted, nobody else is; it
// is served again when it holds less. What it may not open leaves no trace in
// what Watch tells, and other people's hands on the rules take nothing away
// for long.
func TestClientsHaveTheirShare(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	pod := addPod(t, node)
	cfg := config()
	c := starting(t, cfg, testHost(t))
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	holding(t, rules.IPv4, cfg.Ports.Keep())
	holding(t, rules.IPv4, cfg.Ports.Plain())
	most := 5
	clients := NewClients(c, func() (share, all int) { return most, 0 }, slog.New(slog.DiscardHandler))
	now := time.Now()
	look := func() {
		t.Helper()
		now = now.Add(2 * overRefresh)
		must(t, clients.look(now))
	}
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	open := func(from *testkit.Network) {
		t.Helper()
		conn, err := dialWeb(from)
		must(t, err)
		held = append(held, conn)
	}
	refused := func() {
		t.Helper()
		if conn, err := dialWeb(pod); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("one more: %v, %v", conn, err)
		}
	}
	for range most {
		open(pod)
		look()
	}
	open(pod) // it has as many as it may
	look()
	refused()
	refused()
	for range most - 1 {
		open(node)
	}
	// Repair knows these writes for ours, and reads nothing for them.
	_, err := c.Repair()
	must(t, err)
	text := c.table.text
	c.table.text = "not what the kernel has, should anybody look"
	for range 3 {
		look()
		if repaired, err := c.Repair(); repaired || err != nil {
			t.Errorf("who is over its share was written: %v, %v", repaired, err)
		}
	}
	c.table.text = text
	if got := clients.refused.Load(); got != 2 {
		t.Errorf("%d refused, want 2", got)
	}
	list, err := c.table.conn.GetSetElements(c.table.sets[rules.Over.For(rules.IPv4)])
	must(t, err)
	if len(list) != 1 || list[0].Timeout != overTimeout {
		t.Errorf("over their share: %v, want one, for %s", list, overTimeout)
	}

	other, err := nftables.New()
	must(t, err)
	other.FlushRuleset()
	must(t, other.Flush())
	if err := clients.look(now.Add(2 * overRefresh)); err == nil {
		t.Error("nobody noticed that the rules are gone")
	}
	_, err = c.Repair()
	must(t, err)
	look()
	refused()
	look()
	if got := clients.refused.Load(); got != 3 {
		t.Errorf("%d refused, want 3, with rules that count anew", got)
	}

	must(t, held[0].Close())
	must(t, held[1].Close())
	for clients.over.Load() > 0 { // Envoy's end follows
		look()
	}
	open(pod)
	most = 0 // no bound any more
	for range 2 * len(held) {
		open(pod)
	}
	look()
	open(pod)
}

// Connections to another program of the node, which has bound an address of a
// Service (a DNS cache does), are not Envoy's and count for nobody.
func TestOnlyEnvoysConnectionsCount(t *testing.T) {
	t.Parallel()
	node := testkit.NewNetwork(t)
	pod := addPod(t, node)
	cfg := config()
	c := starting(t, cfg, testHost(t))
	apply(t, c, newCluster().serve("web", "10.96.0.1", "10.244.0.5").view(), false)
	holding(t, rules.IPv4, cfg.Ports.Keep())
	lo, err := netlink.LinkByIndex(links.Lo)
	must(t, err)
	pod5, cache := netip.MustParseAddr("10.244.0.5"), netip.MustParseAddrPort("10.96.0.53:53")
	must(t, netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: cache.Addr().AsSlice(), Mask: net.CIDRMask(32, 32)}}))
	keeping(t, net.ListenConfig{}, cache)
	for range 3 {
		for _, to := range []string{web, cache.String()} {
			must(t, pod.Do(func() error {
				conn, err := net.DialTimeout("tcp", to, 10*time.Second)
				if err != nil {
					return err
				}
				t.Cleanup(func() { _ = conn.Close() })
				_, err = conn.Read(make([]byte, 1))
				return err
			}))
		}
	}
	clients := NewClients(c, func() (share, all int) { return 1, 0 }, slog.New(slog.DiscardHandler))
	if held := counted(t, clients, time.Now()); len(held) != 1 || held[pod5] != 3 {
		t.Errorf("%v, want 3 of %s", held, pod5)
	}
	// Nor do they say what the client has open through Envoy, for --close-on-move.
	diag, err := sockdiag.Dial()
	must(t, err)
	defer diag.Close()
	all, err := diag.Both(unix.IPPROTO_TCP, sockdiag.Open, 0)
	must(t, err)
	open, err := c.dialled(all)
	must(t, err)
	if want := (plan.Dialled{Client: pod5, Frontend: netip.MustParseAddrPort(web)}); !slices.Equal(open, []plan.Dialled{want, want, want}) {
		t.Errorf("dialled: %v, want three times %v", open, want)
	}
}

func TestSocketsInUse(t *testing.T) {
	const text = "sockets: used 7\nTCP: inuse 12 orphan 0 tw 3 alloc 15 mem 1\nUDP: inuse 9 mem 0\n"
	if got := inUse([]byte(text)) + inUse([]byte("TCP6: inuse 30\nUDP6: inuse 9\n")); got != 42 {
		t.Errorf("%d, want 42", got)
	}
}
