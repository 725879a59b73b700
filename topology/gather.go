package topology

import (
	"net/netip"
	"slices"
)

// portName is what a port of a Service is to slices.
type portName struct {
	name     string
	protocol Protocol
}

// fewPorts are found in a slice one by one.
const fewPorts = 16

// numbers are what a port leads to in each slice, by its place; 0 where the slice
// lacks it, or is of the other family.
func (i *inquiry) numbers(about topic) []uint16 {
	list, port := make([]uint16, len(i.slices)), portName{about.Name, about.Protocol}
	for at, slice := range i.slices {
		switch {
		case slice.IPv6 != about.ipv6:
		case len(slice.Ports) <= fewPorts:
			if k := slices.IndexFunc(slice.Ports, func(p SlicePort) bool { return p.Name == port.name && p.Protocol == port.protocol }); k >= 0 {
				list[at] = slice.Ports[k].Port
			}
		default:
			if i.named == nil {
				i.named = make([]map[portName]uint16, len(i.slices))
			}
			if i.named[at] == nil {
				i.named[at] = byName(slice.Ports)
			}
			list[at] = i.named[at][port]
		}
	}
	return list
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
func gather(list []*Slice, numbers []uint16) []candidate {
	found := make([]candidate, 0, endpointsAt(list, numbers))
	for at, slice := range list {
		for j := range slice.Endpoints {
			if numbers[at] > 0 {
				found = append(found, candidate{Endpoint: &slice.Endpoints[j], slice: slice, port: numbers[at]})
			}
		}
	}
	return found
}

// endpointsAt is how many gather finds.
func endpointsAt(list []*Slice, numbers []uint16) (n int) {
	for at, slice := range list {
		if numbers[at] > 0 {
			n += len(slice.Endpoints)
		}
	}
	return n
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
