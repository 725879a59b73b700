package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

const (
	// clientsEvery is how often connections are counted at most.
	clientsEvery = 100 * time.Millisecond
	// clientsEffort is which part of the time may go into that, as long as who
	// is over is written often enough.
	clientsEffort = 20
	// overTimeout is for how long a client is refused where nobody counts any
	// more; it is written anew before that.
	overTimeout, overRefresh = 5 * time.Second, time.Second
	// sayEvery bounds the log, for who is over may come and go.
	sayEvery = time.Minute
)

// Clients keeps one client from taking all connections that Envoy may have:
// who holds more than its share may open no more until it holds less, and where
// Envoy takes hardly any more it loses what it opened above its share. Envoy
// bounds them all together only, and the kernel's own count (ct count) takes
// the short connections of a busy client for open ones (docs/adr/0008).
//
// It runs beside the owner of the Capture, of which it uses what does not change.
type Clients struct {
	cfg     plan.Config
	guard   *atomic.Pointer[[]netip.Prefix]
	bounds  func() (share, all int)
	log     *slog.Logger
	share   plan.Share
	stalled plan.Stalled[sockdiag.ID]
	conn    *nft.Session // from the first write on
	table   *nftables.Table
	sets    map[rules.Family]*nftables.Set
	when    time.Time // of the last write
	said    time.Time // that somebody is over
	failed  bool      // the last look did, and that was said
	seen    uint64    // what the rule has counted, when it was last asked

	destroy    func(*sockdiag.Conn, sockdiag.Socket) error
	unclosed   error     // of the last look: a connection of a client that is gone
	closed     int       // of those, since the log was told
	toldClosed time.Time // that some were closed

	looks uint32                 // that counted
	first map[sockdiag.ID]uint32 // in which of them each connection was seen first

	excess     map[netip.Addr]int // connections closed to make room, since the log was told
	toldExcess time.Time          // that some were

	over    atomic.Int64
	refused atomic.Uint64
	removed atomic.Uint64 // connections closed to make room
}

// NewClients makes what bounds the clients of a capture: bounds says how many
// connections each may hold at the moment and how many Envoy takes of all of
// them; 0 is no bound.
func NewClients(c *Capture, bounds func() (share, all int), log *slog.Logger) *Clients {
	t := &nftables.Table{Name: rules.Name, Family: nftables.TableFamilyINet}
	clients := &Clients{
		cfg: c.cfg, guard: &c.guarded, bounds: bounds, log: log, destroy: (*sockdiag.Conn).Reset,
		table: t, sets: map[rules.Family]*nftables.Set{}, excess: map[netip.Addr]int{},
	}
	for _, f := range rules.Families {
		for _, s := range rules.Inet(c.cfg).Sets {
			if s.Name == rules.Over.For(f) {
				clients.sets[f] = nft.NewSet(t, s)
			}
		}
	}
	return clients
}

// Register registers the metrics.
func (c *Clients) Register(r prometheus.Registerer) error {
	return errors.Join(
		r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gridmesh_clients_over_share", Help: "Clients that hold more connections than one of them may, and are refused more.",
		}, func() float64 { return float64(c.over.Load()) })),
		r.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "gridmesh_client_connections_refused_total", Help: "Attempts to connect that were refused to clients over their share.",
		}, func() float64 { return float64(c.refused.Load()) })),
		r.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "gridmesh_client_connections_closed_total", Help: "Connections of clients over their share that were closed, for Envoy took hardly any more.",
		}, func() float64 { return float64(c.removed.Load()) })))
}

// Run counts until ctx ends.
func (c *Clients) Run(ctx context.Context) error {
	timer := time.NewTimer(clientsEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if c.conn != nil {
				c.conn.Close()
			}
			return nil
		case <-timer.C:
		}
		start := time.Now()
		err := c.look(start)
		if failed := err != nil; failed != c.failed {
			c.failed = failed
			if failed {
				c.log.Error("cannot bound the connections of one client; it may take all that Envoy has", obs.KeyErr, err)
			}
		}
		timer.Reset(min(max(clientsEvery, clientsEffort*time.Since(start)), overRefresh))
	}
}

// look counts where anybody may be over, refuses who is, and makes room where
// Envoy has none.
func (c *Clients) look(now time.Time) error {
	c.unclosed = nil
	share, all := c.bounds()
	if !c.share.Any() && (share == 0 || !crowded(share)) {
		return nil
	}
	conn, err := sockdiag.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	var open []sockdiag.Socket
	if share > 0 {
		if open, err = c.open(conn, now); err != nil {
			return err
		}
	}
	c.number(open)
	// Who is not refused would open again what is closed.
	written, err := c.refuse(held(open), share, now)
	if err != nil {
		return err
	}
	c.makeRoom(conn, plan.Excess(open, c.opened, share, all), now)
	if written {
		err = c.ask()
	}
	return errors.Join(err, c.unclosed)
}

// open are the connections that Envoy has with clients that are there.
func (c *Clients) open(conn *sockdiag.Conn, now time.Time) ([]sockdiag.Socket, error) {
	var guard []netip.Prefix
	if known := c.guard.Load(); known != nil {
		guard = *known
	}
	all, err := conn.Both(unix.IPPROTO_TCP, sockdiag.Open, 0)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s sockdiag.Socket) bool {
		// What is bound to an address of a Service is another program's: a DNS
		// cache of the node, say.
		taken := !s.Bound && plan.Within(guard, s.Local.Addr()) || c.cfg.KeepBridgeNetfilter && redirectPort(c.cfg, s.Local.Port())
		return s.Inode == 0 || !taken
	})
	return c.closeDead(conn, all, now), nil
}

// held is how many of these connections each client has.
func held(open []sockdiag.Socket) map[netip.Addr]int {
	held := map[netip.Addr]int{}
	for _, s := range open {
		held[s.Peer.Addr()]++
	}
	return held
}

// refuse has the kernel refuse clients that hold more than share, where that is to
// be written, and the log told who is new among them.
func (c *Clients) refuse(held map[netip.Addr]int, share int, now time.Time) (written bool, err error) {
	over, fresh := c.share.Judge(held, share)
	if len(fresh) > 0 && now.Sub(c.said) > sayEvery {
		c.said = now
		c.log.Warn("clients hold more connections than one of them may and are refused more, until they hold less",
			obs.KeyConnections, held[fresh[0]], obs.KeyWhich, fresh[:min(len(fresh), 3)])
	}
	changed := int64(len(over)) != c.over.Swap(int64(len(over))) || len(fresh) > 0
	if !changed && (len(over) == 0 || now.Sub(c.when) < overRefresh) {
		return false, nil
	}
	if err := c.write(over); err != nil {
		c.when = time.Time{} // the next look writes
		return false, err
	}
	c.when = now
	return true, nil
}

// write makes the kernel refuse these clients. They are let go by themselves
// where nobody writes them any more: a process that died must not keep
// refusing who is below its share by now.
func (c *Clients) write(over []netip.Addr) error {
	conn := c.nftables()
	for _, f := range rules.Families {
		conn.FlushSet(c.sets[f])
		var list []nftables.SetElement
		for _, ip := range over {
			if rules.FamilyOf(ip) == f {
				list = append(list, nftables.SetElement{Key: ip.AsSlice(), Timeout: overTimeout})
			}
		}
		for part := range slices.Chunk(list, chunk) {
			if err := conn.SetAddElements(c.sets[f], part); err != nil {
				return fmt.Errorf("set %s: %w", c.sets[f].Name, err)
			}
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write the clients that are over their share: %w", err)
	}
	return nil
}

// nftables is the session of Clients alone.
func (c *Clients) nftables() *nft.Session {
	if c.conn == nil {
		c.conn = nft.Open()
	}
	return c.conn
}

// ask reads how many attempts were refused; rules that were installed again
// count from zero.
func (c *Clients) ask() error {
	list, err := c.nftables().GetRules(c.table, &nftables.Chain{Name: rules.Crowd, Table: c.table})
	if err != nil {
		return fmt.Errorf("read what was refused to clients over their share: %w", err)
	}
	var counted uint64
	for _, r := range list {
		for _, e := range r.Exprs {
			if n, ok := e.(*expr.Counter); ok {
				counted += n.Packets
			}
		}
	}
	if counted < c.seen {
		c.seen = 0
	}
	c.refused.Add(counted - c.seen)
	c.seen = counted
	return nil
}

// crowded reports whether there are so many TCP sockets in this network that
// one client may hold more than most of them. It costs next to nothing.
func crowded(most int) bool {
	total := 0
	for _, file := range []string{"/proc/thread-self/net/sockstat", "/proc/thread-self/net/sockstat6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				continue // no IPv6
			}
			return true
		}
		total += inUse(text)
	}
	return total > most
}

// inUse is the sum of TCP's "inuse" in a sockstat file.
func inUse(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		var sockets int
		if _, err := fmt.Sscanf(string(line), "TCP: inuse %d", &sockets); err == nil {
			n += sockets
		}
		if _, err := fmt.Sscanf(string(line), "TCP6: inuse %d", &sockets); err == nil {
			n += sockets
		}
	}
	return n
}

func redirectPort(cfg plan.Config, port uint16) bool {
	return port == cfg.Ports.RedirectKeep() || port == cfg.Ports.RedirectPlain()
}
