package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	nl "github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nlenc"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// linux/sock_diag.h and linux/inet_diag.h.
const (
	sockDiagByFamily = 20
	sockDestroy      = 21
	diagReqLen       = 56
	diagMsgLen       = 72
	diagTimerOffset  = 2 // of idiag_timer and idiag_retrans in inet_diag_msg
	diagIDOffset     = 4 // of inet_diag_sockid in inet_diag_msg
	diagIDLen        = 48
	diagInodeOffset  = 68
	diagMark         = 15
	diagSockopt      = 22
	// openStates are ESTABLISHED, FIN_WAIT1, FIN_WAIT2 and CLOSE_WAIT.
	openStates = 1<<1 | 1<<4 | 1<<5 | 1<<8
)

// socketID is addresses, ports and the kernel's cookie: no two are the same.
type socketID [diagIDLen]byte

// socket is one TCP socket of this node.
type socket struct {
	family      byte
	id          socketID
	local, peer netip.AddrPort
	mark        uint32
	timer       byte   // what the kernel waits for
	retries     byte   // how often in vain
	inode       uint32 // 0 where the kernel alone has it, and no process
	bound       bool   // it is not transparent: its address is one of the node's
}

// CloseStale resets Envoy's connections to endpoints that plan.Stale picks and
// returns how many. It costs O(TCP connections of the node).
func (c *Capture) CloseStale(access func(frontend, endpoint netip.AddrPort) topology.Access) (int, error) {
	conn, err := nl.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return 0, fmt.Errorf("open sock_diag: %w", err)
	}
	defer conn.Close()
	all, err := sockets(conn)
	if err != nil {
		return 0, err
	}
	open, err := c.dialled(all)
	if err != nil || len(open) == 0 {
		return 0, err
	}
	upstream, byConn := c.upstream(all)
	closed := 0
	for _, s := range plan.Stale(c.cfg, open, upstream, access) {
		switch err := destroy(conn, byConn[s]); {
		case vanished(err):
		case err != nil:
			return closed, fmt.Errorf("close connection to %s (the kernel needs CONFIG_INET_DIAG_DESTROY): %w", s.Endpoint, err)
		default:
			closed++
		}
	}
	return closed, nil
}

// dialled picks the connections of clients to frontends.
func (c *Capture) dialled(all []socket) ([]plan.Dialled, error) {
	var open []plan.Dialled
	var redirected []socket
	for _, s := range all {
		switch {
		case !s.bound && c.planner.Guards(s.local.Addr()):
			open = append(open, plan.Dialled{Client: s.peer.Addr(), Frontend: s.local})
		case !c.cfg.KeepBridgeNetfilter:
		case redirectPort(c.cfg, s.local.Port()):
			redirected = append(redirected, s)
		}
	}
	if len(redirected) == 0 {
		return open, nil
	}
	dialled, err := originals()
	for _, s := range redirected {
		if to, ok := dialled[[2]netip.AddrPort{s.local, s.peer}]; ok {
			open = append(open, plan.Dialled{Client: s.peer.Addr(), Frontend: to})
		}
	}
	return open, err
}

// upstream picks the connections that carry Envoy's own mark.
func (c *Capture) upstream(all []socket) ([]plan.Conn, map[plan.Conn]socket) {
	var list []plan.Conn
	by := map[plan.Conn]socket{}
	for _, s := range all {
		if s.mark&c.cfg.Mask == c.cfg.Own() {
			conn := plan.Conn{Local: s.local, Endpoint: s.peer}
			by[conn] = s
			list = append(list, conn)
		}
	}
	return list, by
}

// originals maps what a redirected connection is to (local, peer) to what its
// client dialled.
func originals() (map[[2]netip.AddrPort]netip.AddrPort, error) {
	found := map[[2]netip.AddrPort]netip.AddrPort{}
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
		if err != nil {
			return nil, fmt.Errorf("list conntrack: %w", err)
		}
		for _, f := range flows {
			if f.Forward.Protocol != unix.IPPROTO_TCP {
				continue
			}
			to, ok1 := netip.AddrFromSlice(f.Forward.DstIP)
			local, ok2 := netip.AddrFromSlice(f.Reverse.SrcIP)
			peer, ok3 := netip.AddrFromSlice(f.Reverse.DstIP)
			if ok1 && ok2 && ok3 {
				key := [2]netip.AddrPort{netip.AddrPortFrom(local.Unmap(), f.Reverse.SrcPort), netip.AddrPortFrom(peer.Unmap(), f.Reverse.DstPort)}
				found[key] = netip.AddrPortFrom(to.Unmap(), f.Forward.DstPort)
			}
		}
	}
	return found, nil
}

// sockets are the TCP sockets of this network.
func sockets(conn *nl.Conn) (all []socket, err error) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		list, err := socketsOf(conn, family, unix.IPPROTO_TCP, openStates)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

func socketsOf(conn *nl.Conn, family, protocol byte, states uint32) ([]socket, error) {
	req := make([]byte, diagReqLen)
	req[0], req[1] = family, protocol
	nlenc.PutUint32(req[4:8], states)
	msgs, err := conn.Execute(nl.Message{Header: nl.Header{Type: sockDiagByFamily, Flags: nl.Request | nl.Dump}, Data: req})
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	list := make([]socket, 0, len(msgs))
	for _, m := range msgs {
		if s, ok := parseSocket(m.Data); ok {
			list = append(list, s)
		}
	}
	return list, nil
}

func parseSocket(b []byte) (s socket, ok bool) {
	if len(b) < diagMsgLen {
		return s, false
	}
	s.family, s.timer, s.retries = b[0], b[diagTimerOffset], b[diagTimerOffset+1]
	s.inode = nlenc.Uint32(b[diagInodeOffset:diagMsgLen])
	copy(s.id[:], b[diagIDOffset:])
	length := 4
	if s.family == unix.AF_INET6 {
		length = 16
	}
	src, _ := netip.AddrFromSlice(s.id[4 : 4+length])
	dst, _ := netip.AddrFromSlice(s.id[20 : 20+length])
	s.local = netip.AddrPortFrom(src.Unmap(), binary.BigEndian.Uint16(s.id[0:2]))
	s.peer = netip.AddrPortFrom(dst.Unmap(), binary.BigEndian.Uint16(s.id[2:4]))
	attrs, err := nl.NewAttributeDecoder(b[diagMsgLen:])
	if err != nil {
		return s, false
	}
	for attrs.Next() {
		switch attrs.Type() {
		case diagMark:
			s.mark = attrs.Uint32()
		case diagSockopt: // old kernels do not say
			s.bound = !transparent(attrs.Bytes())
		}
	}
	return s, attrs.Err() == nil
}

// transparent reads a bit of inet_diag_sockopt in linux/inet_diag.h, whose
// first is the machine's first.
func transparent(options []byte) bool {
	bit := byte(1 << 5)
	if nlenc.NativeEndian() == binary.BigEndian {
		bit = 1 << 2
	}
	return len(options) > 0 && options[0]&bit != 0
}

// destroy resets a connection on both of its ends (RFC 793 abort).
func destroy(conn *nl.Conn, s socket) error {
	req := make([]byte, diagReqLen)
	req[0], req[1] = s.family, unix.IPPROTO_TCP
	nlenc.PutUint32(req[4:8], openStates)
	copy(req[8:], s.id[:])
	_, err := conn.Execute(nl.Message{Header: nl.Header{Type: sockDestroy, Flags: nl.Request | nl.Acknowledge}, Data: req})
	return err
}
