package topology

import "net/netip"

// serving are the endpoints of a port that still serve and that no keys keep
// from here: flows of UDP to them may go on, also where new ones go to others.
// Envoy knows its flows by itself. Frontends of one port share them, and they are
// bounded as tiers are.
func (i *inquiry) serving(port ServicePort, ipv6 bool, path Path) []netip.AddrPort {
	if port.Protocol != UDP || path != PathKernel {
		return nil
	}
	about := topic{ServicePort: port, ipv6: ipv6}
	list, known := i.flows[about]
	if known {
		return list
	}
	for _, p := range i.places(about) {
		for k := range p.slice.Endpoints {
			e := &p.slice.Endpoints[k]
			if len(list) == i.most && i.most > 0 {
				break
			}
			if e.Serving && (i.view.Keys.Mode == NoKeys || !e.Ready || e.Terminating) {
				list = append(list, netip.AddrPortFrom(e.Addr, p.number))
			}
		}
	}
	if i.flows != nil {
		i.flows[about] = list
	}
	return list
}
