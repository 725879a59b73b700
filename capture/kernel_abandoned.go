package capture

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
)

// Attributes of linux/netfilter/nfnetlink_conntrack.h.
const (
	ctaProtoInfo         = 4
	ctaProtoInfoTCP      = 1
	ctaProtoInfoTCPState = 1
)

// goesOn are the states of conntrack (linux/netfilter/nf_conntrack_tcp.h) in which both ends
// may have a connection, from SYN_RECV to LAST_ACK; in all others one begins anew with the
// client's next SYN, or never did.
const goesOn = 1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<6

// What Envoy's path left is looked for for as long as the kernel serves instead: an Envoy that
// hangs ends what it holds when it is killed. What a look finds is forgotten where it is as it
// was a moment later: a connection that was just begun, and is on its way to its taker, is one
// that goes on by then. Whose SYN comes before that is refused.
const (
	abandonedPause  = 10 * time.Millisecond
	abandonedSecond = 100 * time.Millisecond // from the first look to the next: what was on its way at the switch
	abandonedEvery  = 2 * time.Second        // from then on, at least
	abandonedEffort = 40                     // of which a look may take one: it goes through all of conntrack's table
	abandonedLong   = 30 * time.Second       // at most
	abandonedMost   = 10                     // at once, where there is more than is forgotten by one
)

// envoys tells flows of TCP that Envoy's path left: to its frontends, and not translated, or
// to listeners of its for bridges.
type envoys struct {
	frontends, listeners map[netip.AddrPort]bool
	until                time.Time // when they are not looked for any more; zero: when somebody says so
}

// abandon has what Envoy's path left looked for while it gets no connections, of all that it
// serves, and of what went from it to the kernel; from the beginning where either has just begun.
func (c *Capture) abandon(absent, begun bool) {
	moved := c.kernel.movedSince(time.Now())
	if !absent && len(moved) == 0 {
		c.flows.abandoned.stop()
		return
	}
	var until time.Time
	if absent {
		moved = slices.Concat(moved, c.planner.Plan().Serve)
	} else {
		until = c.kernel.movedUntil()
	}
	e := c.whatEnvoyLeft(moved)
	e.until = until
	c.flows.abandoned.begin(c.flows.dial, e, begun)
}

// whatEnvoyLeft tells those of some frontends, as of now.
func (c *Capture) whatEnvoyLeft(serve []topology.Frontend) envoys {
	var listeners []netip.AddrPort
	if c.cfg.KeepBridgeNetfilter {
		own, _ := links.Addresses(0) // of one that is not told, what there is ends by itself
		for _, ip := range own {
			listeners = append(listeners, netip.AddrPortFrom(ip, c.cfg.Ports.RedirectKeep()), netip.AddrPortFrom(ip, c.cfg.Ports.RedirectPlain()))
		}
	}
	return newEnvoys(serve, listeners...)
}

func newEnvoys(serve []topology.Frontend, listeners ...netip.AddrPort) envoys {
	e := envoys{frontends: make(map[netip.AddrPort]bool, len(serve)), listeners: map[netip.AddrPort]bool{}}
	for _, l := range listeners {
		e.listeners[l] = true
	}
	for _, s := range serve {
		if s.Protocol == topology.TCP {
			e.frontends[netip.AddrPortFrom(s.Addr, s.Port)] = true
		}
	}
	return e
}

// have reports whether it has a frontend of a family.
func (e envoys) have(family byte) bool {
	for f := range e.frontends {
		if f.Addr().Is6() == (family == unix.AF_INET6) {
			return true
		}
	}
	return false
}

// left reports whether a flow is one, and at its end or not begun. Of one that is offloaded the
// kernel says no state: it goes on. One in a zone is another's, as of a network that translates
// by itself, and no rule of the capture's has seen it.
func (e envoys) left(orig, reply tuple, state byte) bool {
	return orig.proto == unix.IPPROTO_TCP && !orig.zoned && !reply.zoned && e.frontends[orig.dst] && state != 0 && 1<<state&goesOn == 0 &&
		(reply.src == orig.dst || e.listeners[reply.src])
}

// abandonment is conntrack being made to forget what Envoy's path left there of connections that
// it did not take or that are at their end: a flow that is known passes no rule that translates,
// and so a client that tries again, or happens on the port of one, would be refused where the
// kernel serves its frontend.
type abandonment struct {
	forget func(context.Context, *nl.Conn, envoys) (more bool, err error)

	mu     sync.Mutex
	of     envoys
	end    context.CancelFunc // nil: nobody looks
	failed bool               // it is to be begun with another connection
	ended  sync.WaitGroup
}

// begin has it done beside who calls until end; anew: from its first look on. One that runs is
// told the frontends as they are now.
func (a *abandonment) begin(dial func() (*nl.Conn, error), e envoys, anew bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of = e
	if a.end != nil && !anew && !a.failed {
		return
	}
	a.cancel()
	conn, err := dial()
	if err != nil {
		return // the next Repair tries again; what there is ends by itself, within two minutes
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.end, a.failed = cancel, false
	a.ended.Go(func() {
		a.look(ctx, conn)
		_ = conn.Close()
	})
}

func (a *abandonment) cancel() {
	if a.end != nil {
		a.end()
		a.end = nil
	}
}

// stop ends it, and does not wait.
func (a *abandonment) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancel()
}

// over reports whether it is at its end by itself.
func (a *abandonment) over(ctx context.Context, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case ctx.Err() != nil: // somebody ended it, and another one may have begun
		return true
	case a.of.until.IsZero() || now.Before(a.of.until):
		return false
	}
	a.cancel()
	return true
}

// look looks until it is ended.
func (a *abandonment) look(ctx context.Context, conn *nl.Conn) {
	for next := abandonedSecond; ; next = abandonedEvery {
		begin := time.Now()
		if a.over(ctx, begin) {
			return
		}
		for range abandonedMost {
			a.mu.Lock()
			e := a.of
			a.mu.Unlock()
			more, err := a.forget(ctx, conn, e)
			if err != nil && ctx.Err() == nil {
				a.mu.Lock()
				a.failed = true
				a.mu.Unlock()
			}
			if !more || err != nil {
				break
			}
		}
		if next == abandonedEvery {
			next = min(max(next, abandonedEffort*(time.Since(begin)-abandonedPause)), abandonedLong)
		}
		run.Pause(ctx, next)
	}
}

// forgetAbandoned has it forget the flows that Envoy's path left which are left a moment later,
// too; more: perhaps not all of them.
func (c conntrack) forgetAbandoned(ctx context.Context, conn *nl.Conn, e envoys) (more bool, err error) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if !e.have(family) {
			continue
		}
		list, failed := c.abandoned(conn, asked{family, filterOf(unix.IPPROTO_TCP, netip.AddrPort{})}, e)
		if unasked(failed) {
			list, failed = c.abandoned(conn, asked{family: family}, e)
		}
		torn := errors.Is(failed, dump.ErrTorn)
		if failed != nil && !torn {
			err = failed
			continue
		}
		more = more || torn || len(list) == mostForgotten
		if len(list) == 0 {
			continue
		}
		if !run.Pause(ctx, abandonedPause) {
			return false, err
		}
		for _, name := range list {
			if ctx.Err() != nil {
				return false, err
			}
			left, failed := c.stays(conn, family, name, e)
			if left && failed == nil {
				failed = c.remove(conn, family, [][]byte{name})
			}
			if failed != nil {
				return false, errors.Join(err, failed)
			}
		}
	}
	return more, err
}

// stays reports whether a flow is the same still, and left.
func (c conntrack) stays(conn *nl.Conn, family byte, name []byte, e envoys) (bool, error) {
	answer, err := conn.Execute(nl.Message{
		// The kernel calls it a part of a list, which the acknowledgement ends.
		Header: nl.Header{Type: nl.HeaderType(c.subsystem<<8 | ctGet), Flags: nl.Request | nl.Acknowledge},
		Data:   append(nft.Header(nftables.TableFamily(family)), name...),
	})
	if errors.Is(err, unix.ENOENT) || err == nil && (len(answer) == 0 || len(answer[0].Data) < nfgenmsgLen) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	item := answer[0].Data[nfgenmsgLen:]
	now, orig, reply := parseTuples(item)
	return bytes.Equal(now, name) && e.left(orig, reply, stateOf(item)), nil
}

func (c conntrack) abandoned(conn *nl.Conn, q asked, e envoys) ([][]byte, error) {
	return dump.Again(func() (list [][]byte, err error) {
		err = c.each(conn, q, func(item []byte) {
			if name, orig, reply := parseTuples(item); len(list) < mostForgotten && e.left(orig, reply, stateOf(item)) {
				list = append(list, name)
			}
		})
		return list, err
	})
}

// stateOf is a flow's state, 0 where it has none.
func stateOf(item []byte) (state byte) {
	in := func(b []byte, kind uint16) (value []byte) {
		nft.EachAttribute(b, func(k uint16, v []byte) {
			if k == kind {
				value = v
			}
		})
		return value
	}
	if b := in(in(in(item, ctaProtoInfo), ctaProtoInfoTCP), ctaProtoInfoTCPState); len(b) == 1 {
		return b[0] & 31
	}
	return 0
}
