package topology

import (
	"net/netip"
	"slices"
)

// gather collects the endpoints of one port and family, as often as slices
// have them.
func gather(list []*Slice, port ServicePort, ipv6 bool) []candidate {
	var found []candidate
	for _, slice := range list {
		if slice.IPv6 != ipv6 {
			continue
		}
		i := slices.IndexFunc(slice.Ports, func(p SlicePort) bool { return p.Name == port.Name && p.Protocol == port.Protocol })
		if i < 0 {
			continue
		}
		found = slices.Grow(found, len(slice.Endpoints))
		for j := range slice.Endpoints {
			found = append(found, candidate{Endpoint: &slice.Endpoints[j], slice: slice, port: slice.Ports[i].Port})
		}
	}
	return found
}

// portsOf are the ports that slices of one family have endpoints for, by name.
func portsOf(list []*Slice, ipv6 bool) map[ServicePort]bool {
	ports := map[ServicePort]bool{}
	for _, slice := range list {
		for _, p := range slice.Ports {
			if slice.IPv6 == ipv6 {
				ports[ServicePort{Name: p.Name, Protocol: p.Protocol}] = true
			}
		}
	}
	return ports
}

// target is the address and port that a frontend leads to.
func (c candidate) target() netip.AddrPort { return netip.AddrPortFrom(c.Addr, c.port) }
