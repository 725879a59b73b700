package netlab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// end is one end of a veth pair.
type end struct {
	ns    *NS
	name  string
	addrs []netip.Prefix
}

// wire connects two namespaces; mtu 0 is the kernel's default.
func wire(a, b end, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = a.name
	attrs.MTU = mtu
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: b.name, PeerNamespace: netlink.NsFd(b.ns.fd)}
	if err := a.ns.link.LinkAdd(veth); err != nil {
		return fmt.Errorf("wire %s/%s to %s/%s: %w", a.ns.Name, a.name, b.ns.Name, b.name, err)
	}
	for _, e := range []end{a, b} {
		if err := e.ns.setMTU(e.name, mtu); err != nil {
			return err
		}
		if err := e.ns.up(e.name, e.addrs...); err != nil {
			return err
		}
	}
	return nil
}

func (n *NS) setMTU(name string, mtu int) error {
	if mtu == 0 {
		return nil
	}
	l, err := n.link.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: find %s: %w", n.Name, name, err)
	}
	return n.link.LinkSetMTU(l, mtu)
}

// up sets a link up with addresses.
func (n *NS) up(name string, addrs ...netip.Prefix) error {
	l, err := n.link.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: find %s: %w", n.Name, name, err)
	}
	if err := n.link.LinkSetUp(l); err != nil {
		return fmt.Errorf("%s: set %s up: %w", n.Name, name, err)
	}
	for _, p := range addrs {
		a := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD // an address must answer at once
		}
		if err := n.link.AddrReplace(l, a); err != nil {
			return fmt.Errorf("%s: add %s to %s: %w", n.Name, p, name, err)
		}
	}
	return nil
}

// bridge makes a bridge with addresses.
func (n *NS) bridge(name string, addrs ...netip.Prefix) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := n.link.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("%s: add bridge %s: %w", n.Name, name, err)
	}
	return n.up(name, addrs...)
}

func (n *NS) enslave(port, bridge string) error {
	p, err := n.link.LinkByName(port)
	if err != nil {
		return err
	}
	b, err := n.link.LinkByName(bridge)
	if err != nil {
		return err
	}
	return n.link.LinkSetMaster(p, b)
}

// route adds a route; via may be zero for what is on the link itself.
func (n *NS) route(dst netip.Prefix, via netip.Addr, dev string) error {
	r := &netlink.Route{Dst: ipNet(dst)}
	if via.IsValid() {
		r.Gw = via.AsSlice()
	} else {
		r.Scope = unix.RT_SCOPE_LINK
	}
	if dev != "" {
		l, err := n.link.LinkByName(dev)
		if err != nil {
			return fmt.Errorf("%s: route %s: %w", n.Name, dst, err)
		}
		r.LinkIndex = l.Attrs().Index
	}
	if err := n.link.RouteReplace(r); err != nil {
		return fmt.Errorf("%s: route %s via %s dev %s: %w", n.Name, dst, via, dev, err)
	}
	return nil
}

func (n *NS) delLink(name string) error {
	l, err := n.link.LinkByName(name)
	if err != nil {
		return err
	}
	return n.link.LinkDel(l)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func host(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }

// AddLink adds a link that nothing is connected to.
func (n *NS) AddLink(name string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	return n.link.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
}

// DelLink removes a link.
func (n *NS) DelLink(name string) error { return n.delLink(name) }

// Rules lists the policy routing rules of both families, for people.
func (n *NS) Rules() (string, error) {
	rules, err := n.link.RuleList(unix.AF_UNSPEC)
	return fmt.Sprint(rules), err
}
