package capture

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

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
}

var thisNode = nodeNetwork{addresses: links.Addresses, defaults: routing.Defaults}

// followAddresses serves node ports at the addresses that the node has now. Where
// these come and go all the time it adds those that were told, and leaves none.
func (c *Capture) followAddresses() error {
	k, of, chosen := c.kernel, c.node, *c.cfg.Kernel
	var all []netip.Addr
	var torn []error
	later := func(err error) error {
		if errors.Is(err, dump.ErrTorn) {
			torn = append(torn, err)
			return nil
		}
		return err
	}
	var err error
	if len(chosen.NodePortAddresses) > 0 {
		if all, err = of.addresses(0); later(err) != nil {
			return fmt.Errorf("where node ports are served: %w", err)
		}
		if err != nil {
			all = append(all, k.ports...)
		}
	}
	if len(chosen.NodeIPs) == 0 {
		if chosen.NodeIPs, err = of.primaries(k.own); later(err) != nil {
			return fmt.Errorf("where node ports are served: %w", err)
		}
	}
	if ports := chosen.NodePorts(all); !slices.Equal(ports, k.ports) || !slices.Equal(chosen.NodeIPs, k.own) {
		k.own, k.ports = chosen.NodeIPs, ports
		k.replan(c.cfg)
	}
	return errors.Join(torn...)
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

// primaries are the addresses by which the node's default routes leave, one a
// family: those that a kubelet takes which was given none. A default route may go
// with the uplink; what was found before stays then, while the node has it, and so it
// does while nobody can tell.
func (of nodeNetwork) primaries(before []netip.Addr) (own []netip.Addr, err error) {
	var torn error
	for _, ipv6 := range []bool{false, true} {
		was := slices.IndexFunc(before, func(ip netip.Addr) bool { return ip.Is6() == ipv6 })
		ip, err := of.primary(ipv6)
		if err != nil && !errors.Is(err, dump.ErrTorn) {
			return nil, err
		}
		if was >= 0 && (err != nil || !ip.IsValid()) {
			stays, unread := of.keeps(before[was])
			if stays {
				ip = before[was]
			}
			err = errors.Join(err, unread)
		}
		if err != nil {
			torn = err
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

// keeps reports whether the node has an address; of a torn list, that it may.
func (of nodeNetwork) keeps(ip netip.Addr) (bool, error) {
	all, err := of.addresses(0)
	return err != nil || slices.Contains(all, ip), err
}
