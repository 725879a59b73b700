package netlab

import (
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Host is a machine on a unit's network that is no node of the cluster.
type Host struct {
	NS      *NS
	IP, IP6 netip.Addr
}

// hostIndex is where hosts' addresses begin, behind those of nodes.
const hostIndex = 100

// AddHost plugs a machine into the unit's network. What is not there it sends to
// the router.
func (u *Unit) AddHost(name string) (*Host, error) {
	i := hostIndex + len(u.hosts)
	h := &Host{IP: netip.AddrFrom4([4]byte{10, 20, byte(u.index), byte(i)}), IP6: v6(0x20, u.index, i)}
	var err error
	if h.NS, err = NewNS(name); err != nil {
		return nil, err
	}
	u.hosts = append(u.hosts, h)
	port := "h-" + name
	if err := wire(end{h.NS, "eth0", []netip.Prefix{netip.PrefixFrom(h.IP, 24), netip.PrefixFrom(h.IP6, 64)}}, end{u.Router, port, nil}, 0); err != nil {
		return nil, err
	}
	return h, errors.Join(u.Router.enslave(port, "lan0"),
		h.NS.route(anywhere4, u.gateway4(), "eth0"), h.NS.route(anywhere6, u.gateway6(), "eth0"))
}

// Via leads a range of addresses by another machine of the network.
func (n *NS) Via(dst netip.Prefix, via netip.Addr) error { return n.route(dst, via, "") }

// AddAddress gives a link one more address, and sets it up.
func (n *NS) AddAddress(link string, p netip.Prefix) error { return n.up(link, p) }

// Own has the namespace take every address of a range for its own.
func (n *NS) Own(dst netip.Prefix) error {
	lo, err := n.link.LinkByName("lo")
	if err != nil {
		return err
	}
	return n.link.RouteReplace(&netlink.Route{Dst: ipNet(dst), LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST})
}
