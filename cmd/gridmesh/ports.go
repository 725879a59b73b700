package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// portless are the endpoints of a Service that no slice has with a frontend's port, by
// name and protocol, which topology does not ask about: nothing but that keeps them out.
func portless(entry *topology.Entry, f topology.Frontend, name string) (rows []endRow) {
	list := entry.Slices
	has := func(s *topology.Slice) bool {
		return slices.ContainsFunc(s.Ports, func(p topology.SlicePort) bool { return p.Name == name && p.Protocol == f.Protocol })
	}
	known := map[netip.Addr]bool{}
	for _, s := range list {
		for i := range s.Endpoints {
			known[s.Endpoints[i].Addr] = known[s.Endpoints[i].Addr] || has(s)
		}
	}
	for _, s := range list {
		if s.IPv6 != f.Addr.Is6() {
			continue
		}
		for _, e := range s.Endpoints {
			if !known[e.Addr] {
				known[e.Addr] = true
				row := endRow{Address: e.Addr.String(), Node: e.Node, Reason: unlike(s.Ports, portText(name, f.Protocol)), at: netip.AddrPortFrom(e.Addr, 0)}
				if row.unnamed = lacksAlone(entry.Service, s.Ports); row.unnamed {
					row.Reason = lacks(s.Ports, portText(name, f.Protocol))
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// lacksAlone reports whether a slice has no ports but those of its Service. So are those
// that a cluster makes, which leaves out a port whose targetPort is a name that no container
// of the pod gives a port.
func lacksAlone(s *topology.Service, ports []topology.SlicePort) bool {
	return s != nil && !slices.ContainsFunc(ports, func(p topology.SlicePort) bool {
		return !slices.ContainsFunc(s.Ports, func(own topology.ServicePort) bool { return own.Name == p.Name && own.Protocol == p.Protocol })
	})
}

// lacks says that a slice has some ports of its Service, and not the one that is wanted.
func lacks(ports []topology.SlicePort, wanted string) string {
	const why = ", most often as its pod has no port of the name that targetPort says"
	if len(ports) == 0 {
		return "its slice has no ports" + why
	}
	return fmt.Sprintf("its slice has %s, and not %s%s", portTexts(ports), wanted, why)
}

// unlike says that a slice has other ports than the one that is wanted.
func unlike(ports []topology.SlicePort, wanted string) string {
	return fmt.Sprintf("its slice has %s, and not %s: ports are matched by name", portTexts(ports), wanted)
}

// portTexts are the first few: a slice may have hundreds, and who asks wants one that is not among them.
func portTexts(ports []topology.SlicePort) string {
	const most = 8
	var texts []string
	for _, p := range ports[:min(len(ports), most)] {
		texts = append(texts, portText(p.Name, p.Protocol))
	}
	if more := len(ports) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// portText is a port as it is matched, by its name.
func portText(name string, protocol topology.Protocol) string {
	if name == "" {
		name = "(unnamed)"
	}
	return name + "/" + protocol.String()
}
