package capture

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
	"github.com/gridmesh/gridmesh/topology"
)

// CloseStale resets Envoy's connections to endpoints that plan.Stale picks and
// returns how many. It costs O(TCP connections of the node).
func (c *Capture) CloseStale(access func(frontend, endpoint netip.AddrPort) topology.Access) (int, error) {
	conn, err := sockdiag.Dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	all, err := conn.Both(unix.IPPROTO_TCP, sockdiag.Open, 0)
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
		switch err := conn.Reset(byConn[s]); {
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
func (c *Capture) dialled(all []sockdiag.Socket) ([]plan.Dialled, error) {
	var open []plan.Dialled
	var redirected []sockdiag.Socket
	for _, s := range all {
		switch {
		case !s.Bound && c.planner.Guards(s.Local.Addr()):
			open = append(open, plan.Dialled{Client: s.Peer.Addr(), Frontend: s.Local})
		case !c.cfg.KeepBridgeNetfilter:
		case redirectPort(c.cfg, s.Local.Port()):
			redirected = append(redirected, s)
		}
	}
	if len(redirected) == 0 {
		return open, nil
	}
	dialled, err := originals()
	for _, s := range redirected {
		if to, ok := dialled[[2]netip.AddrPort{s.Local, s.Peer}]; ok {
			open = append(open, plan.Dialled{Client: s.Peer.Addr(), Frontend: to})
		}
	}
	return open, err
}

// upstream picks the connections that carry Envoy's own mark.
func (c *Capture) upstream(all []sockdiag.Socket) ([]plan.Conn, map[plan.Conn]sockdiag.Socket) {
	var list []plan.Conn
	by := map[plan.Conn]sockdiag.Socket{}
	for _, s := range all {
		if s.Mark&c.cfg.Mask == c.cfg.Own() {
			conn := plan.Conn{Local: s.Local, Endpoint: s.Peer}
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
