package capture

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/routing"
)

// nodeNetwork is how the node's addresses and default routes are read. Of a list
// that stays torn it has what was told, beside dump.ErrTorn.
type nodeNetwork struct {
	addresses func(link int) ([]netip.Addr, error) // 0: of all links
	defaults  func(ipv6 bool) ([]routing.Default, error)
	young     func() bool // it has just booted
}

var thisNode = nodeNetwork{addresses: links.Addresses, defaults: routing.Defaults, young: isYoung}

// followAddresses serves node ports at the addresses that the node has now. Where
// these come and go all the time it adds those that were told, and leaves none.
func (c *Capture) followAddresses() error {
	k, of, chosen := c.kernel, c.node, *c.cfg.Kernel
	all, torn := of.addresses(0)
	if torn != nil && !errors.Is(torn, dump.ErrTorn) {
		return fmt.Errorf("where node ports are served: %w", torn)
	}
	if torn != nil {
		all = slices.Concat(all, k.ports, k.own)
	}
	if len(chosen.NodeIPs) == 0 {
		own, err := of.primaries(k, all)
		if err != nil && !errors.Is(err, dump.ErrTorn) {
			return fmt.Errorf("where node ports are served: %w", err)
		}
		if torn = cmp.Or(torn, err); torn != nil && len(k.own) > 0 {
			own = k.own
		}
		if torn == nil && !of.young() { // else another may be the one
			for _, ip := range own {
				if !slices.Contains(k.said, ip) { // which is no word of the routes
					k.homes.add(ip)
				}
			}
		}
		chosen.NodeIPs = own
	}
	if ports := chosen.NodePorts(all); !slices.Equal(ports, k.ports) || !slices.Equal(chosen.NodeIPs, k.own) {
		k.own, k.ports = chosen.NodeIPs, ports
		k.replan(c.cfg)
	}
	if torn != nil {
		return fmt.Errorf("where node ports are served: %w", torn)
	}
	c.judgeHomes(all, time.Now())
	return nil
}

// findAddresses is followAddresses at the start: the first view is compared with what
// a run before served at them.
func (c *Capture) findAddresses() error {
	if c.kernel == nil {
		return nil
	}
	err := c.followAddresses()
	if errors.Is(err, dump.ErrTorn) {
		c.sayLater(err) // and the next Repair looks again
		return nil
	}
	return err
}

// replan plans the same Services for another configuration, or other addresses.
func (k *kernelPath) replan(cfg plan.Config) {
	own := *cfg.Kernel
	own.NodeIPs, cfg.Kernel = k.own, &own
	k.planner, k.held = k.planner.With(cfg, k.ports), unsure
}

// primaries are the addresses by which the node is known: of each family those that its Node has,
// or had, as InternalIPs and that the node has. Where it has none, the one by which its default
// route leaves, which a kubelet takes that was given none. Who dials node ports knows them, and no
// route that goes with an uplink, or comes, changes that: one that was stays while the node has
// it, and is again when it is back.
func (of nodeNetwork) primaries(k *kernelPath, all []netip.Addr) (own []netip.Addr, torn error) {
	for _, ipv6 := range []bool{false, true} {
		has := func(ip netip.Addr) bool { return ip.Is6() == ipv6 && slices.Contains(all, ip) }
		if slices.ContainsFunc(k.said, has) {
			own = append(own, slices.DeleteFunc(slices.Clone(k.said), func(ip netip.Addr) bool { return !has(ip) })...)
			continue
		}
		if i := slices.IndexFunc(k.homes[ipv6], has); i >= 0 {
			own = append(own, k.homes[ipv6][i])
			continue
		}
		ip, err := of.primary(ipv6)
		if err != nil && !errors.Is(err, dump.ErrTorn) {
			return nil, err
		}
		torn = cmp.Or(torn, err)
		if i := slices.IndexFunc(k.own, has); !ip.IsValid() && i >= 0 { // of a node that is young
			ip = k.own[i]
		}
		if ip.IsValid() {
			own = append(own, ip)
		}
	}
	return own, torn
}

// primary is invalid where no default route has an address.
func (of nodeNetwork) primary(ipv6 bool) (netip.Addr, error) {
	routes, torn := of.defaults(ipv6)
	if torn != nil && !errors.Is(torn, dump.ErrTorn) {
		return netip.Addr{}, torn
	}
	slices.SortStableFunc(routes, func(a, b routing.Default) int { return cmp.Compare(a.Metric, b.Metric) })
	for _, r := range routes {
		if r.Source.IsValid() {
			return r.Source.Unmap(), torn
		}
		if r.Link == 0 {
			continue
		}
		list, err := of.addresses(r.Link)
		if err != nil && !errors.Is(err, dump.ErrTorn) {
			return netip.Addr{}, err
		}
		torn = cmp.Or(torn, err)
		i := slices.IndexFunc(list, func(ip netip.Addr) bool { return ip.Is6() == ipv6 && ip.IsGlobalUnicast() })
		if i >= 0 {
			return list[i], torn
		}
	}
	return netip.Addr{}, torn
}
