package topology

import (
	"net/netip"
	"slices"
)

// What is said of an endpoint that is in several slices, as it may be while the
// endpoints of a Service are moved between them.
var (
	duplicate      = &rule{name: "slices", reason: "the same endpoint is in another slice too"}
	duplicateStays = &rule{name: "slices", reason: "the same endpoint is in another slice too, not terminating"}
)

// gather collects the endpoints of one port and family. Of two entries with
// the same address and port the one that does not terminate wins.
func (q *question) gather(list []*Slice, port ServicePort, ipv6 bool) []candidate {
	var found []candidate
	var at map[netip.AddrPort]int
	for _, slice := range list {
		if slice.IPv6 != ipv6 {
			continue
		}
		i := slices.IndexFunc(slice.Ports, func(p SlicePort) bool { return p.Name == port.Name && p.Protocol == port.Protocol })
		if i < 0 {
			continue
		}
		if at == nil {
			at = make(map[netip.AddrPort]int, len(slice.Endpoints))
			found = make([]candidate, 0, len(slice.Endpoints))
		}
		for j := range slice.Endpoints {
			c := candidate{Endpoint: &slice.Endpoints[j], slice: slice, port: slice.Ports[i].Port}
			k, dup := at[c.target()]
			switch {
			case !dup:
				at[c.target()] = len(found)
				found = append(found, c)
			case found[k].Terminating && !c.Terminating:
				q.rule = duplicateStays
				q.leaveOut(found[k])
				found[k] = c
			default:
				q.rule = duplicate
				q.leaveOut(c)
			}
		}
	}
	return found
}

// target is the address and port that a frontend leads to.
func (c candidate) target() netip.AddrPort { return netip.AddrPortFrom(c.Addr, c.port) }
