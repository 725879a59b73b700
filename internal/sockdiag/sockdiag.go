// Package sockdiag lists and closes the sockets of this network, by the kernel's
// sock_diag(7). The library for netlink that is used elsewhere neither filters by port nor
// tells marks and options.
package sockdiag

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nlenc"
	"golang.org/x/sys/unix"
)

// linux/sock_diag.h and linux/inet_diag.h.
const (
	byFamily      = 20
	destroy       = 21
	requestLen    = 56
	portOffset    = 8 // of the own port in a request
	messageLen    = 72
	stateOffset   = 1 // of idiag_state in inet_diag_msg
	timerOffset   = 2 // of idiag_timer and idiag_retrans
	idOffset      = 4 // of inet_diag_sockid in inet_diag_msg
	idLen         = 48
	uidOffset     = 64
	inodeOffset   = 68
	attrV6Only    = 11
	attrMark      = 15
	attrSockopt   = 22
	localOffset   = 4 // of addresses in inet_diag_sockid
	peerOffset    = 20
	ipv4Len       = 4
	ipv6Len       = 16
	peersPort     = 2
	transparentLE = 1 << 5 // in inet_diag_sockopt, whose first bit is the machine's first
	transparentBE = 1 << 2
)

// States of sockets, to be joined (net/tcp_states.h).
const (
	Open   = 1<<1 | 1<<4 | FinWait2 | 1<<8 // ESTABLISHED, FIN_WAIT1, FIN_WAIT2 and CLOSE_WAIT
	Listen = 1 << 10
	Closed = 1 << 7 // of a socket of UDP: connected to nobody
	// FinWait2 is closed by this end; also what the kernel remembers then without a socket.
	FinWait2 = 1 << 5
	// TimeWait is closed, and remembered for a minute.
	TimeWait = 1 << 6
	// Connected have a peer, or had one until now: TIME_WAIT, too.
	Connected = Open | TimeWait | 1<<2 | 1<<9 | 1<<11
)

// ID is addresses, ports and the kernel's cookie: no two are the same.
type ID [idLen]byte

// Socket is one socket of this network.
type Socket struct {
	Family      byte
	ID          ID
	Local, Peer netip.AddrPort
	State       uint32 // one of the states
	Mark        uint32 // 0 as well where the kernel does not say, as old ones in TimeWait
	UID         uint32 // of whose it is
	Timer       byte   // what the kernel waits for
	Retries     byte   // how often in vain
	Inode       uint32 // 0 where the kernel alone has it, and no process
	Bound       bool   // it is not transparent: its address is one of the node's
	Transparent bool   // it is; neither where the kernel does not say
	V6Only      bool   // of IPv6: it is sent nothing of IPv4; known of those that listen
}

// Hears reports whether who dials an address over TCP may get to a socket that listens.
func (s Socket) Hears(at netip.AddrPort) bool {
	ip := s.Local.Addr()
	all := ip.IsUnspecified() && (ip.Is4() == at.Addr().Is4() || ip.Is6() && !s.V6Only)
	return s.Local.Port() == at.Port() && (all || ip == at.Addr())
}

// Conn asks the kernel. It is for one goroutine.
type Conn struct{ conn *netlink.Conn }

// Dial opens a Conn, which the caller closes.
func Dial() (*Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, fmt.Errorf("open sock_diag: %w", err)
	}
	return &Conn{conn}, nil
}

// Close closes it.
func (c *Conn) Close() { _ = c.conn.Close() }

// List returns the sockets of a family (AF_INET or AF_INET6) and a protocol that are in
// one of some states, and have this port of their own; with 0 any.
func (c *Conn) List(family, protocol byte, states uint32, port uint16) ([]Socket, error) {
	req := request(family, protocol, states)
	binary.BigEndian.PutUint16(req[portOffset:], port)
	msgs, err := c.conn.Execute(netlink.Message{Header: netlink.Header{Type: byFamily, Flags: netlink.Request | netlink.Dump}, Data: req})
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	list := make([]Socket, 0, len(msgs))
	for _, m := range msgs {
		if s, ok := parse(m.Data); ok {
			list = append(list, s)
		}
	}
	return list, nil
}

// Both are the sockets of both families.
func (c *Conn) Both(protocol byte, states uint32, port uint16) (all []Socket, err error) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		list, err := c.List(family, protocol, states, port)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// Reset ends a connection of TCP on both of its ends (RFC 793 abort). The error is
// EOPNOTSUPP where the kernel has no CONFIG_INET_DIAG_DESTROY, or is old and the
// connection in TIME_WAIT, and ENOENT or ESTALE where it is gone.
func (c *Conn) Reset(s Socket) error {
	req := request(s.Family, unix.IPPROTO_TCP, Open)
	copy(req[requestLen-idLen:], s.ID[:])
	_, err := c.conn.Execute(netlink.Message{Header: netlink.Header{Type: destroy, Flags: netlink.Request | netlink.Acknowledge}, Data: req})
	return err
}

func request(family, protocol byte, states uint32) []byte {
	req := make([]byte, requestLen)
	req[0], req[1] = family, protocol
	nlenc.PutUint32(req[4:8], states)
	return req
}

func parse(b []byte) (s Socket, ok bool) {
	if len(b) < messageLen {
		return s, false
	}
	s.Family, s.Timer, s.Retries = b[0], b[timerOffset], b[timerOffset+1]
	s.State, s.UID = 1<<b[stateOffset], nlenc.Uint32(b[uidOffset:inodeOffset])
	s.Inode = nlenc.Uint32(b[inodeOffset:messageLen])
	copy(s.ID[:], b[idOffset:])
	length := ipv4Len
	if s.Family == unix.AF_INET6 {
		length = ipv6Len
	}
	src, _ := netip.AddrFromSlice(s.ID[localOffset : localOffset+length])
	dst, _ := netip.AddrFromSlice(s.ID[peerOffset : peerOffset+length])
	s.Local = netip.AddrPortFrom(src.Unmap(), binary.BigEndian.Uint16(s.ID[:]))
	s.Peer = netip.AddrPortFrom(dst.Unmap(), binary.BigEndian.Uint16(s.ID[peersPort:]))
	attrs, err := netlink.NewAttributeDecoder(b[messageLen:])
	if err != nil {
		return s, false
	}
	for attrs.Next() {
		switch attrs.Type() {
		case attrV6Only:
			s.V6Only = attrs.Uint8() != 0
		case attrMark:
			s.Mark = attrs.Uint32()
		case attrSockopt: // old kernels do not say
			s.Transparent = transparent(attrs.Bytes())
			s.Bound = !s.Transparent
		}
	}
	return s, attrs.Err() == nil
}

func transparent(options []byte) bool {
	bit := byte(transparentLE)
	if nlenc.NativeEndian() == binary.BigEndian {
		bit = transparentBE
	}
	return len(options) > 0 && options[0]&bit != 0
}
