package capture

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// followAddresses serves node ports at the addresses that the node has now.
func (c *Capture) followAddresses() error {
	k, chosen := c.kernel, *c.cfg.Kernel
	var all []netip.Addr
	var err error
	if len(chosen.NodePortAddresses) > 0 {
		if all, err = addresses(nil); err != nil {
			return err
		}
	}
	if len(chosen.NodeIPs) == 0 {
		if chosen.NodeIPs, err = primaries(k.own); err != nil {
			return err
		}
	}
	if ports := chosen.NodePorts(all); !slices.Equal(ports, k.ports) || !slices.Equal(chosen.NodeIPs, k.own) {
		k.own, k.ports = chosen.NodeIPs, ports
		k.replan(c.cfg)
	}
	return nil
}

// replan plans the same Services for another configuration, or other addresses.
func (k *kernelPath) replan(cfg plan.Config) {
	own := *cfg.Kernel
	own.NodeIPs, cfg.Kernel = k.own, &own
	k.planner, k.held = k.planner.With(cfg, k.ports), unsure
}

// addresses are those of a link of this node; of all where it is nil.
func addresses(link netlink.Link) (all []netip.Addr, err error) {
	list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the node's addresses: %w", err)
	}
	for _, a := range list {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			all = append(all, ip.Unmap())
		}
	}
	return all, nil
}

// primaries are the addresses by which the node's default routes leave, one a
// family: those that a kubelet takes which was given none. A default route may go
// with the uplink; what was found before stays then, while the node has it.
func primaries(before []netip.Addr) (own []netip.Addr, err error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		found := len(own)
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return nil, fmt.Errorf("list the node's routes: %w", err)
		}
		routes = slices.DeleteFunc(routes, func(r netlink.Route) bool {
			if r.Dst == nil {
				return false
			}
			ones, _ := r.Dst.Mask.Size()
			return ones > 0
		})
		slices.SortStableFunc(routes, func(a, b netlink.Route) int { return cmp.Compare(a.Priority, b.Priority) })
		for _, r := range routes {
			if ip, ok := leavesBy(r, family == unix.AF_INET6); ok {
				own = append(own, ip)
				break
			}
		}
		i := slices.IndexFunc(before, func(ip netip.Addr) bool { return ip.Is6() == (family == unix.AF_INET6) })
		if len(own) > found || i < 0 {
			continue
		}
		all, err := addresses(nil)
		if err != nil {
			return nil, err
		}
		if slices.Contains(all, before[i]) {
			own = append(own, before[i])
		}
	}
	return own, nil
}

// leavesBy is the address of this node that packets of a route have.
func leavesBy(r netlink.Route, ipv6 bool) (netip.Addr, bool) {
	if ip, ok := netip.AddrFromSlice(r.Src); ok {
		return ip.Unmap(), true
	}
	index := r.LinkIndex
	if len(r.MultiPath) > 0 {
		index = r.MultiPath[0].LinkIndex
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return netip.Addr{}, false // it went meanwhile
	}
	list, err := addresses(link)
	if err != nil {
		return netip.Addr{}, false
	}
	i := slices.IndexFunc(list, func(ip netip.Addr) bool { return ip.Is6() == ipv6 && ip.IsGlobalUnicast() })
	if i < 0 {
		return netip.Addr{}, false
	}
	return list[i], true
}
