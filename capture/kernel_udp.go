package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
)

// Attributes of linux/netfilter/nfnetlink_conntrack.h.
const (
	ctaTupleOrig    = 1
	ctaTupleReply   = 2
	ctaID           = 12
	ctaZone         = 18
	ctaTupleIP      = 1
	ctaTupleProto   = 2
	ctaTupleZone    = 3
	ctaProtoNum     = 1
	ctaProtoSrcPort = 2
	ctaProtoDstPort = 3
	ctGet, ctDelete = 1, 2 // IPCTNL_MSG_CT_*
)

// mostForgotten bounds the flows that are forgotten at a time; the rest is left
// to the next Repair.
const mostForgotten = 20000

// tuple is one direction of a flow.
type tuple struct {
	proto    byte
	src, dst netip.AddrPort
}

// forgetFlows makes conntrack forget UDP flows to endpoints that are gone. Its
// memory does not grow with the table of conntrack.
func (c *Capture) forgetFlows() error {
	k := c.kernel
	if !k.flows {
		return nil
	}
	absent := k.absent != nil && *k.absent
	more := false
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		stale, err := staleFlows(family, func(f plan.UDPFlow) bool { return k.planner.StaleUDP(f, absent) })
		if err != nil {
			return fmt.Errorf("look for stale UDP flows: %w", err)
		}
		more = more || len(stale) == mostForgotten
		if err := forget(family, stale); err != nil {
			return fmt.Errorf("forget stale UDP flows: %w", err)
		}
	}
	k.flows = more
	return nil
}

// staleFlows are the attributes that name each flow that is to be forgotten.
func staleFlows(family byte, stale func(plan.UDPFlow) bool) (list [][]byte, err error) {
	err = nft.Dump(unix.NFNL_SUBSYS_CTNETLINK<<8|ctGet, family, nil, func(item []byte) error {
		if len(list) == mostForgotten {
			return nil
		}
		var orig, reply tuple
		var name []byte
		nft.EachAttribute(item, func(kind uint16, value []byte) {
			switch kind {
			case ctaTupleOrig:
				orig = parseTuple(value)
				name = append(name, nft.Attribute(ctaTupleOrig|unix.NLA_F_NESTED, value)...)
			case ctaTupleReply:
				reply = parseTuple(value)
			case ctaID, ctaZone:
				name = append(name, nft.Attribute(kind, value)...)
			}
		})
		if orig.proto == unix.IPPROTO_UDP && stale(plan.UDPFlow{Dialled: orig.dst, Answerer: reply.src}) {
			list = append(list, name)
		}
		return nil
	})
	if errors.Is(err, dump.ErrTorn) {
		err = nil // a flow that came meanwhile has an endpoint
	}
	return list, err
}

func parseTuple(b []byte) (t tuple) {
	var src, dst netip.Addr
	var sport, dport uint16
	nft.EachAttribute(b, func(kind uint16, value []byte) {
		switch kind {
		case ctaTupleIP: // sources are 1 and 3, destinations 2 and 4
			nft.EachAttribute(value, func(kind uint16, value []byte) {
				ip, _ := netip.AddrFromSlice(value)
				if kind%2 == 1 {
					src = ip
				} else {
					dst = ip
				}
			})
		case ctaTupleProto:
			nft.EachAttribute(value, func(kind uint16, value []byte) {
				switch {
				case kind == ctaProtoNum && len(value) == 1:
					t.proto = value[0]
				case kind == ctaProtoSrcPort && len(value) == 2:
					sport = binary.BigEndian.Uint16(value)
				case kind == ctaProtoDstPort && len(value) == 2:
					dport = binary.BigEndian.Uint16(value)
				}
			})
		}
	})
	t.src, t.dst = netip.AddrPortFrom(src, sport), netip.AddrPortFrom(dst, dport)
	return t
}

// forget deletes flows. One that is gone meanwhile is no error.
func forget(family byte, flows [][]byte) error {
	if len(flows) == 0 {
		return nil
	}
	conn, err := nl.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("open conntrack: %w", err)
	}
	defer conn.Close()
	for _, name := range flows {
		_, err := conn.Execute(nl.Message{
			Header: nl.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | ctDelete, Flags: nl.Request | nl.Acknowledge},
			Data:   append([]byte{family, 0, 0, 0}, name...),
		})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}
