package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
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
	ctaFilter       = 25
	ctaFilterOrig   = 1
	ctaTupleIP      = 1
	ctaTupleProto   = 2
	ctaTupleZone    = 3
	ctaProtoNum     = 1
	ctaProtoSrcPort = 2
	ctaProtoDstPort = 3
	ctaIPv4Dst      = 2
	ctGet, ctDelete = 1, 2 // IPCTNL_MSG_CT_*
	nfgenmsgLen     = 4

	// By which parts of a tuple a filter goes: CTA_FILTER_F_* of net/netfilter/nf_internals.h,
	// which the kernel's own tools use, too.
	byDst, byProto, byDstPort = 1 << 1, 1 << 3, 1 << 5
)

// mostForgotten bounds the flows that are forgotten by one question; the rest is left
// to the next look.
const mostForgotten = 20000

// tuple is one direction of a flow.
type tuple struct {
	proto    byte
	src, dst netip.AddrPort
	zoned    bool // in a zone of its own; the default is not told
}

// asked is a question about flows of a family: those that it is about are among the
// answers, and perhaps others.
type asked struct {
	family byte
	filter []byte
}

// mostAsked bounds the frontends that are asked for one by one. For each the kernel
// goes through its table; beyond that all of UDP is told.
const mostAsked = 4

// questionsAbout are what is asked about the flows of frontends.
func questionsAbout(udp plan.UDPServing) (list []asked) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		var own []netip.AddrPort
		for f, serving := range udp {
			if f.Addr().Is6() == (family == unix.AF_INET6) && len(serving) > 0 {
				own = append(own, f)
			}
		}
		slices.SortFunc(own, netip.AddrPort.Compare)
		if len(own) > mostAsked {
			own = []netip.AddrPort{{}}
		}
		for _, f := range own {
			list = append(list, asked{family, filterOf(unix.IPPROTO_UDP, f)})
		}
	}
	return list
}

// filterOf asks for flows of a protocol to a frontend, of IPv6 to its port; to any where it is invalid. A kernel
// before 5.8 knows no filter, and tells of all.
func filterOf(protocol byte, f netip.AddrPort) []byte {
	nested := func(kind uint16, value []byte) []byte { return nft.Attribute(kind|unix.NLA_F_NESTED, value) }
	number := func(kind uint16, n uint32) []byte {
		return nft.Attribute(kind, binary.NativeEndian.AppendUint32(nil, n))
	}
	orig, proto, flags := []byte(nil), nft.Attribute(ctaProtoNum, []byte{protocol}), uint32(byProto)
	if f.IsValid() {
		proto = append(proto, nft.Attribute(ctaProtoDstPort, binary.BigEndian.AppendUint16(nil, f.Port()))...)
		flags |= byDstPort
		// By an address of IPv6 kernels, up to 6.18 at least, leave out what matches.
		if f.Addr().Is4() {
			orig = nested(ctaTupleIP, nft.Attribute(ctaIPv4Dst, f.Addr().AsSlice()))
			flags |= byDst
		}
	}
	orig = append(orig, nested(ctaTupleProto, proto)...)
	return append(nested(ctaTupleOrig, orig), nested(ctaFilter, number(ctaFilterOrig, flags))...)
}

// conntrack is the kernel's memory of flows, a subsystem of its netfilter.
type conntrack struct {
	subsystem uint16
	each      func(conn *nl.Conn, q asked, take func(item []byte)) error // takes the flows that are asked for, and others
}

func newConntrack(subsystem uint16) conntrack {
	c := conntrack{subsystem: subsystem}
	c.each = c.dump
	return c
}

// forget has it forget the flows that are stale, and reports whether there may be
// more. Its memory does not grow with the table of conntrack.
func (c conntrack) forget(conn *nl.Conn, udp plan.UDPServing) (more bool, err error) {
	for _, q := range questionsAbout(udp) {
		stale, err := c.stale(conn, q, udp)
		if unasked(err) { // it may be the filter that it does not know
			stale, err = c.stale(conn, asked{family: q.family}, udp)
		}
		torn := errors.Is(err, dump.ErrTorn)
		if unasked(err) {
			return true, fmt.Errorf("%w: %w", errNoConntrack, err)
		}
		if err != nil && !torn {
			return true, fmt.Errorf("look for stale UDP flows: %w", err)
		}
		more = more || torn || len(stale) == mostForgotten
		if err := c.remove(conn, q.family, stale); err != nil {
			return true, fmt.Errorf("forget stale UDP flows: %w", err)
		}
	}
	return more, nil
}

// errNoConntrack is that there is nobody to ask.
var errNoConntrack = errors.New("the kernel has no netlink for conntrack")

// unasked reports whether an error is that the kernel has, or loads, no such part of
// netfilter.
func unasked(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT)
}

// stale are the attributes that name each flow that is to be forgotten; of a list
// that stays torn those that were told, beside dump.ErrTorn.
func (c conntrack) stale(conn *nl.Conn, q asked, udp plan.UDPServing) ([][]byte, error) {
	return dump.Again(func() (list [][]byte, err error) {
		err = c.each(conn, q, func(item []byte) {
			if name, flow, ok := parseFlow(item); ok && len(list) < mostForgotten && udp.Stale(flow) {
				list = append(list, name)
			}
		})
		return list, err
	})
}

func (c conntrack) dump(conn *nl.Conn, q asked, take func(item []byte)) error {
	return dump.Each(conn, nl.Message{
		Header: nl.Header{Type: nl.HeaderType(c.subsystem<<8 | ctGet), Flags: nl.Request | nl.Dump},
		Data:   append(nft.Header(nftables.TableFamily(q.family)), q.filter...),
	}, func(m nl.Message) error {
		if len(m.Data) >= nfgenmsgLen {
			take(m.Data[nfgenmsgLen:])
		}
		return nil
	})
}

// parseFlow is a flow of UDP, and the attributes that name it. One in another zone of
// conntrack that is not translated is another's: of whoever looks at the packets before, or
// after, the kernel path does.
func parseFlow(item []byte) (name []byte, flow plan.UDPFlow, ours bool) {
	name, orig, reply := parseTuples(item)
	ours = orig.proto == unix.IPPROTO_UDP && (orig.dst != reply.src || !orig.zoned && !reply.zoned)
	return name, plan.UDPFlow{Dialled: orig.dst, Answerer: reply.src}, ours
}

// parseTuples are both directions of a flow, and the attributes that name it.
func parseTuples(item []byte) (name []byte, orig, reply tuple) {
	zoned := false
	nft.EachAttribute(item, func(kind uint16, value []byte) {
		switch kind {
		case ctaTupleOrig:
			orig = parseTuple(value)
			name = append(name, nft.Attribute(ctaTupleOrig|unix.NLA_F_NESTED, value)...)
		case ctaTupleReply:
			reply = parseTuple(value)
		case ctaID, ctaZone:
			name = append(name, nft.Attribute(kind, value)...)
			zoned = zoned || kind == ctaZone
		}
	})
	orig.zoned, reply.zoned = orig.zoned || zoned, reply.zoned || zoned
	return name, orig, reply
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
		case ctaTupleZone:
			t.zoned = true
		}
	})
	t.src, t.dst = netip.AddrPortFrom(src, sport), netip.AddrPortFrom(dst, dport)
	return t
}

// remove removes flows. One that is gone meanwhile is no error.
func (c conntrack) remove(conn *nl.Conn, family byte, flows [][]byte) error {
	for _, name := range flows {
		_, err := conn.Execute(nl.Message{
			Header: nl.Header{Type: nl.HeaderType(c.subsystem<<8 | ctDelete), Flags: nl.Request | nl.Acknowledge},
			Data:   append(nft.Header(nftables.TableFamily(family)), name...),
		})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}
