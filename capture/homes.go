package capture

import (
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// homes are addresses that were primary, by whether they are of IPv6, the first one
// first: the node is known by them.
type homes map[bool][]netip.Addr

// mostHomes bounds those of a family, for some networks give another each day.
const mostHomes = 8

func (h homes) add(ip netip.Addr) {
	list := h[ip.Is6()]
	if slices.Contains(list, ip) {
		return
	}
	list = append(list, ip)
	h[ip.Is6()] = list[max(0, len(list)-mostHomes):]
}

// findHomes takes for primary at the start, by family, where a run before has most node ports in
// force, if it has none where the default route leaves now: that may be the worse one of two
// uplinks, whose better one is away. What cannot be read says nothing.
func (c *Capture) findHomes() {
	k, chosen := c.kernel, c.cfg.Kernel
	if len(k.homes) > 0 || len(chosen.NodeIPs)+len(chosen.NodePortAddresses) > 0 {
		return
	}
	served, err := k.table.nodePorts()
	if err != nil || len(served) == 0 {
		c.sayLater(err)
		return
	}
	all, unread := c.node.addresses(0)
	now, err := c.node.primaries(nil, all)
	if err := errors.Join(unread, err); err != nil && !errors.Is(err, dump.ErrTorn) {
		return // followAddresses says so
	}
	for _, ipv6 := range []bool{false, true} {
		var most netip.Addr
		for ip, n := range served {
			if ip.Is6() == ipv6 && slices.Contains(all, ip) && (n > served[most] || n == served[most] && ip.Less(most)) {
				most = ip
			}
		}
		if most.IsValid() && !slices.ContainsFunc(now, func(ip netip.Addr) bool { return ip.Is6() == ipv6 && served[ip] > 0 }) {
			k.homes.add(most)
		}
	}
}

// nodePorts counts the node ports that a table has in force, by address: frontends outside of the
// ClusterIPs, on a port of the range that clusters have for them if nobody chose another.
func (t *kernelTable) nodePorts() (map[netip.Addr]int, error) {
	const first, last = 30000, 32767
	count := map[netip.Addr]int{}
	for _, family := range rules.Families {
		list, err := nft.ReadMap(t.nft.Name, rules.Policy.For(family))
		if errors.Is(err, unix.ENOENT) { // there is no such table
			continue
		}
		if err != nil && !errors.Is(err, dump.ErrTorn) {
			return nil, err
		}
		for _, e := range list {
			if f, ok := frontendOf(e, family); ok && f.Port >= first && f.Port <= last {
				count[f.Addr]++
			}
		}
	}
	return count, nil
}
