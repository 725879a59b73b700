package capture

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
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

// What was on its way at the switch may have left one more: conntrack is looked at twice.
const (
	abandonedLooks = 2
	abandonedPause = 100 * time.Millisecond
)

// abandon has conntrack forget what Envoy's path left there of connections that it did not take
// or that are at their end, beside who calls: a flow that is known passes no rule that
// translates, and so a client that tries again, or happens on the port of one, would be
// refused where the kernel serves its frontend.
func (f *flows) abandon(serve []topology.Frontend) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.abandoning != nil || len(serve) == 0 {
		return
	}
	conn, err := f.dial()
	if err != nil {
		return // so says who looks for flows of UDP
	}
	of := make(map[netip.AddrPort]bool, len(serve))
	for _, s := range serve {
		if s.Protocol == topology.TCP {
			of[netip.AddrPortFrom(s.Addr, s.Port)] = true
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.abandoning = cancel
	f.ended.Go(func() {
		for range abandonedLooks {
			f.abandoned(conn, of)
			select {
			case <-time.After(abandonedPause):
			case <-ctx.Done():
			}
		}
		_ = conn.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		cancel()
		f.abandoning = nil
	})
}

// forgetAbandoned has it forget the flows of TCP to some frontends that are not translated,
// and at their end.
func (c conntrack) forgetAbandoned(conn *nl.Conn, of map[netip.AddrPort]bool) error {
	var errs []error
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		list, err := c.abandoned(conn, asked{family, filterOf(unix.IPPROTO_TCP, netip.AddrPort{})}, of)
		if unasked(err) {
			list, err = c.abandoned(conn, asked{family: family}, of)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("look for abandoned flows: %w", err))
		}
		errs = append(errs, c.remove(conn, family, list))
	}
	return errors.Join(errs...)
}

func (c conntrack) abandoned(conn *nl.Conn, q asked, of map[netip.AddrPort]bool) ([][]byte, error) {
	return dump.Again(func() (list [][]byte, err error) {
		err = c.each(conn, q, func(item []byte) {
			name, orig, reply := parseTuples(item)
			if orig.proto == unix.IPPROTO_TCP && of[orig.dst] && reply.src == orig.dst && 1<<stateOf(item)&goesOn == 0 {
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
