package capture

import (
	"context"
	"net/netip"
	"slices"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/nft"
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

// A connection that is not taken lasts from one look to the next: those that were just begun,
// and are taken before they are forgotten, go on. What was on its way at the switch is in the
// second of these looks; where there is more than is forgotten at once there are some more.
const (
	abandonedLooks = 3
	abandonedMost  = 20
	abandonedPause = 100 * time.Millisecond
)

// envoys tells flows of TCP that Envoy's path left: to its frontends, and not translated, or
// to listeners of its for bridges.
type envoys struct{ frontends, listeners map[netip.AddrPort]bool }

// whatEnvoyLeft tells them as of now.
func (c *Capture) whatEnvoyLeft() envoys {
	var listeners []netip.AddrPort
	if c.cfg.KeepBridgeNetfilter {
		own, _ := links.Addresses(0) // of one that is not told, what there is ends by itself
		for _, ip := range own {
			listeners = append(listeners, netip.AddrPortFrom(ip, c.cfg.Ports.RedirectKeep()), netip.AddrPortFrom(ip, c.cfg.Ports.RedirectPlain()))
		}
	}
	return newEnvoys(c.planner.Plan().Serve, listeners...)
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

// left reports whether a flow is one, and at its end or not begun. Of one that is offloaded the
// kernel says no state: it goes on.
func (e envoys) left(orig, reply tuple, state byte) bool {
	return orig.proto == unix.IPPROTO_TCP && e.frontends[orig.dst] && state != 0 && 1<<state&goesOn == 0 &&
		(reply.src == orig.dst || e.listeners[reply.src])
}

// abandon has conntrack forget what Envoy's path left there of connections that it did not take
// or that are at their end, beside who calls: a flow that is known passes no rule that
// translates, and so a client that tries again, or happens on the port of one, would be
// refused where the kernel serves its frontend.
func (f *flows) abandon(e envoys) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.abandoning != nil { // of a switch before, and of frontends as they were then
		f.abandoning()
	}
	if len(e.frontends) == 0 {
		return
	}
	conn, err := f.dial()
	if err != nil {
		return // what there is ends by itself, within two minutes
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.abandoning = cancel
	f.ended.Go(func() {
		f.abandonAll(ctx, conn, e)
		_ = conn.Close()
		cancel()
	})
}

func (f *flows) abandonAll(ctx context.Context, conn *nl.Conn, e envoys) {
	was := map[string]bool{}
	for looks, all := 0, 0; looks < abandonedLooks && all < abandonedMost && ctx.Err() == nil; all++ {
		var more bool
		if was, more = f.abandoned(conn, e, was); !more {
			looks++
		}
		select {
		case <-time.After(abandonedPause):
		case <-ctx.Done():
			return
		}
	}
}

// forgetAbandoned has it forget those flows that Envoy's path left which were there at the look
// before, and returns, by the attributes that name them, those that are there now; more: perhaps
// not all of them. A look that fails forgets nothing: what there is ends by itself, within two minutes.
func (c conntrack) forgetAbandoned(conn *nl.Conn, e envoys, was map[string]bool) (is map[string]bool, more bool) {
	is = map[string]bool{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		list, err := c.abandoned(conn, asked{family, filterOf(unix.IPPROTO_TCP, netip.AddrPort{})}, e)
		if unasked(err) {
			list, err = c.abandoned(conn, asked{family: family}, e)
		}
		if err != nil {
			continue
		}
		more = more || len(list) == mostForgotten
		last := slices.DeleteFunc(slices.Clone(list), func(name []byte) bool { return !was[string(name)] })
		if c.remove(conn, family, last) == nil {
			list = slices.DeleteFunc(list, func(name []byte) bool { return was[string(name)] })
		}
		for _, name := range list {
			is[string(name)] = true
		}
	}
	return is, more
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
