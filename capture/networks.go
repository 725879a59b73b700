package capture

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
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
// address may be put. Widest first, and of very many the first. Where others change
// addresses or routes all the time it returns what was told beside dump.ErrTorn.
func Networks(ranges []netip.Prefix) ([]Network, error) {
	addrs, torn := dump.Again(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if torn != nil {
		torn = fmt.Errorf("list addresses: %w", torn)
	}
	if torn != nil && !errors.Is(torn, dump.ErrTorn) {
		return nil, torn
	}
	var found []Network
	names := linkNames{ask: netlink.LinkByIndex, known: map[int]string{}}
	for _, a := range addrs {
		p, ok := prefixOf(a.IPNet)
		if !ok || !slices.ContainsFunc(ranges, p.Overlaps) {
			continue
		}
		name, err := names.of(a.LinkIndex)
		if err != nil {
			return nil, err
		}
		if name != "" {
			found = append(found, Network{Prefix: p, Link: name})
		}
	}
	routes, err := routesInto(ranges, names)
	found = append(found, routes...)
	slices.SortFunc(found, func(a, b Network) int { return topology.ComparePrefix(a.Prefix, b.Prefix) })
	slices.SortStableFunc(found, func(a, b Network) int { return a.Prefix.Bits() - b.Prefix.Bits() })
	if err == nil {
		err = torn
	}
	return slices.Compact(found), err
}

// linkNames are those of links that a network may be on, by index. They are asked
// for one by one: a node has many links, and hardly any in a range of Services.
type linkNames struct {
	ask   func(index int) (netlink.Link, error)
	known map[int]string
}

// of is empty for lo, for a dummy link, and for one that is gone. A link that
// cannot be read is an error: it may be the node's own.
func (n linkNames) of(index int) (string, error) {
	name, known := n.known[index]
	if known {
		return name, nil
	}
	l, err := n.ask(index)
	var gone netlink.LinkNotFoundError
	switch {
	case errors.As(err, &gone) || errors.Is(err, unix.ENODEV):
	case err != nil:
		return "", fmt.Errorf("read link %d, which has an address or route in the ranges given: %w", index, err)
	case l.Type() != "dummy" && l.Attrs().Flags&net.FlagLoopback == 0:
		name = l.Attrs().Name
	}
	n.known[index] = name
	return name, nil
}

// routesInto lists routes into parts of ranges. Those of the kernel's own are
// of the host's addresses.
func routesInto(ranges []netip.Prefix, names linkNames) (found []Network, err error) {
	var torn error
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		list, err := dump.Again(func() ([]Network, error) { return routesOf(family, ranges, names) })
		found = append(found, list...)
		switch {
		case errors.Is(err, dump.ErrTorn):
			torn = fmt.Errorf("list routes: %w", err)
		case err != nil:
			return found, err
		}
	}
	return found, torn
}

// routesOf reads once.
func routesOf(family int, ranges []netip.Prefix, names linkNames) (found []Network, err error) {
	var unread error
	err = netlink.RouteListFilteredIter(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
		p, ok := prefixOf(r.Dst)
		into := func(of netip.Prefix) bool { return of.Bits() < p.Bits() && of.Overlaps(p) }
		link := r.LinkIndex
		if len(r.MultiPath) > 0 {
			link = r.MultiPath[0].LinkIndex
		}
		if !ok || r.Protocol == unix.RTPROT_KERNEL || !slices.ContainsFunc(ranges, into) {
			return true
		}
		name, err := names.of(link)
		if unread = err; err == nil && name != "" {
			found = append(found, Network{Prefix: p, Link: name, Route: true})
		}
		return err == nil && len(found) < maxNetworks
	})
	if err != nil {
		return found, fmt.Errorf("list routes: %w", err)
	}
	return found, unread
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
