package routing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
)

// Default is a default route of the node.
type Default struct {
	Link   int        // by its index; 0 where it leads nowhere
	Metric uint32     // the lowest comes first
	Source netip.Addr // what packets are sent from; invalid where the link says
}

// Of linux/rtnetlink.h: struct rtmsg, and struct rtnexthop of a route that has several.
const (
	rtmsgLen                   = 12
	rtmDstLenAt, rtmSrcLenAt   = 1, 2
	rtmTableAt, rtmTypeAt      = 4, 7
	rtnexthopLen, rtnexthopOif = 8, 4
)

// Defaults lists the default routes of the main table. Of the others it keeps
// none, and a kernel from 4.20 on tells of no other table. Where routes come and go all
// the time it has what was told beside dump.ErrTorn.
func Defaults(ipv6 bool) ([]Default, error) {
	conn, err := links.Dial()
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	defer conn.Close()
	return defaults(ipv6, func(m nl.Message, do func(nl.Message) error) error { return dump.Each(conn, m, do) })
}

func defaults(ipv6 bool, each func(m nl.Message, do func(nl.Message) error) error) ([]Default, error) {
	head := make([]byte, rtmsgLen)
	head[0], head[rtmTableAt] = unix.AF_INET, unix.RT_TABLE_MAIN
	if ipv6 {
		head[0] = unix.AF_INET6
	}
	list, err := dump.Again(func() (list []Default, err error) {
		err = each(nl.Message{Header: nl.Header{Type: unix.RTM_GETROUTE, Flags: nl.Request | nl.Dump}, Data: head}, func(m nl.Message) error {
			if len(m.Data) < rtmsgLen || m.Data[0] != head[0] || m.Data[rtmDstLenAt] != 0 || m.Data[rtmSrcLenAt] != 0 ||
				m.Data[rtmTableAt] != unix.RT_TABLE_MAIN || m.Data[rtmTypeAt] != unix.RTN_UNICAST {
				return nil
			}
			d, err := parseDefault(m.Data[rtmsgLen:])
			list = append(list, d)
			return err
		})
		if errors.Is(err, unix.ENOENT) { // there is no such table yet
			err = nil
		}
		return list, err
	})
	if err != nil {
		err = fmt.Errorf("list routes: %w", err)
	}
	return list, err
}

func parseDefault(b []byte) (d Default, err error) {
	attrs, err := nl.NewAttributeDecoder(b)
	if err != nil {
		return d, err
	}
	for attrs.Next() {
		switch attrs.Type() {
		case unix.RTA_OIF:
			d.Link = int(attrs.Uint32())
		case unix.RTA_PRIORITY:
			d.Metric = attrs.Uint32()
		case unix.RTA_PREFSRC:
			d.Source, _ = netip.AddrFromSlice(attrs.Bytes())
		case unix.RTA_MULTIPATH:
			if hops := attrs.Bytes(); len(hops) >= rtnexthopLen && d.Link == 0 {
				d.Link = int(binary.NativeEndian.Uint32(hops[rtnexthopOif:]))
			}
		}
	}
	return d, attrs.Err()
}
