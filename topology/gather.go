package topology

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// portName is what a port of a Service is to slices.
type portName struct {
	name     string
	protocol Protocol
}

// place is where a port leads to: a slice, and the number that it has there.
type place struct {
	slice  *Slice
	at     int // of the slice, among the Service's
	number uint16
}

// fewAsked are looked for in all slices one by one; for more an index is made.
const fewAsked = 16

// places are the slices with endpoints in which a port is. All ports together cost what
// the slices have of them, and not the ports times the slices.
func (i *inquiry) places(about topic) []place {
	if i.index == nil {
		if i.asked++; i.asked <= fewAsked {
			return i.find(about)
		}
		i.index = indexed(i.slices)
	}
	return i.index[placeKey{portName{about.Name, about.Protocol}, about.ipv6}]
}

// find looks for a port in all slices.
func (i *inquiry) find(about topic) (list []place) {
	for at, slice := range i.slices {
		if slice.IPv6 != about.ipv6 || len(slice.Endpoints) == 0 {
			continue
		}
		if k := slices.IndexFunc(slice.Ports, func(p SlicePort) bool { return p.Name == about.Name && p.Protocol == about.Protocol }); k >= 0 && slice.Ports[k].Port > 0 {
			list = append(list, place{slice, at, slice.Ports[k].Port})
		}
	}
	return list
}

// placeKey is a port of one family.
type placeKey struct {
	portName
	ipv6 bool
}

// indexed are the places of every port; of two of one name in a slice the first counts.
func indexed(list []*Slice) map[placeKey][]place {
	index := map[placeKey][]place{}
	for at, slice := range list {
		if len(slice.Endpoints) == 0 {
			continue
		}
		for name, number := range byName(slice.Ports) {
			if number > 0 {
				key := placeKey{name, slice.IPv6}
				index[key] = append(index[key], place{slice, at, number})
			}
		}
	}
	return index
}

// byName are ports by name, the first of each.
func byName(list []SlicePort) map[portName]uint16 {
	numbers := make(map[portName]uint16, len(list))
	for _, p := range list {
		if _, dup := numbers[portName{p.Name, p.Protocol}]; !dup {
			numbers[portName{p.Name, p.Protocol}] = p.Port
		}
	}
	return numbers
}

// gather collects the endpoints of a port, as often as slices have them.
func gather(places []place) []candidate {
	found := make([]candidate, 0, endpointsAt(places))
	for _, p := range places {
		for j := range p.slice.Endpoints {
			found = append(found, candidate{Endpoint: &p.slice.Endpoints[j], slice: p.slice, port: p.number})
		}
	}
	return found
}

// endpointsAt is how many gather finds.
func endpointsAt(places []place) (n int) {
	for _, p := range places {
		n += len(p.slice.Endpoints)
	}
	return n
}

// portsOf are the ports that slices of one family have endpoints for, by name, in order.
func portsOf(list []*Slice, ipv6 bool) []ServicePort {
	ports := map[ServicePort]bool{}
	for _, slice := range list {
		for _, p := range slice.Ports {
			if slice.IPv6 == ipv6 {
				ports[ServicePort{Name: p.Name, Protocol: p.Protocol}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(ports), func(a, b ServicePort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol))
	})
}

// target is the address and port that a frontend leads to.
func (c candidate) target() netip.AddrPort { return netip.AddrPortFrom(c.Addr, c.port) }
