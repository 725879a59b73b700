package capture

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/topology"
)

// Network is where this host has an address, or sends packets by a route.
type Network struct {
	Prefix netip.Prefix
	Link   string
	Route  bool // else an address of the host is in it
}

// maxNetworks bounds what Networks returns of a host's many routes.
const maxNetworks = 100

// Networks lists the networks of this host that have addresses in common with
// given ranges: those that it has an address in, and its routes into a part of a
// range. What a range lies in altogether, as in a default route, is none of
// them, and neither is what is on lo or a dummy link, where a Service's own
// address may be put. Widest first, and of very many the first.
func Networks(ranges []netip.Prefix) ([]Network, error) {
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var found []Network
	names := linkNames{}
	for _, a := range addrs {
		p, ok := prefixOf(a.IPNet)
		if !ok || !slices.ContainsFunc(ranges, p.Overlaps) {
			continue
		}
		if name := names.of(a.LinkIndex); name != "" {
			found = append(found, Network{Prefix: p, Link: name})
		}
	}
	routes, err := routesInto(ranges, names)
	found = append(found, routes...)
	slices.SortFunc(found, func(a, b Network) int { return topology.ComparePrefix(a.Prefix, b.Prefix) })
	slices.SortStableFunc(found, func(a, b Network) int { return a.Prefix.Bits() - b.Prefix.Bits() })
	return slices.Compact(found), err
}

// linkNames are those of links that a network may be on, by index. They are asked
// for one by one: a node has many links, and hardly any in a range of Services.
type linkNames map[int]string

// of is empty for lo, for a dummy link, and for one that is gone.
func (n linkNames) of(index int) string {
	name, known := n[index]
	if !known {
		if l, err := netlink.LinkByIndex(index); err == nil && l.Type() != "dummy" && l.Attrs().Flags&net.FlagLoopback == 0 {
			name = l.Attrs().Name
		}
		n[index] = name
	}
	return name
}

// routesInto lists routes into parts of ranges. Those of the kernel's own are
// of the host's addresses.
func routesInto(ranges []netip.Prefix, names linkNames) (found []Network, err error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		err := netlink.RouteListFilteredIter(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			p, ok := prefixOf(r.Dst)
			into := func(of netip.Prefix) bool { return of.Bits() < p.Bits() && of.Overlaps(p) }
			link := r.LinkIndex
			if len(r.MultiPath) > 0 {
				link = r.MultiPath[0].LinkIndex
			}
			if !ok || r.Protocol == unix.RTPROT_KERNEL || !slices.ContainsFunc(ranges, into) {
				return true
			}
			if name := names.of(link); name != "" {
				found = append(found, Network{Prefix: p, Link: name, Route: true})
			}
			return len(found) < maxNetworks
		})
		if err != nil {
			return found, fmt.Errorf("list routes: %w", err)
		}
	}
	return found, nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	ip, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	p := netip.PrefixFrom(ip.Unmap(), bits)
	return p.Masked(), ok && p.IsValid()
}
