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
func portless(list []*topology.Slice, f topology.Frontend, name string) (rows []endRow) {
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
				rows = append(rows, endRow{Address: e.Addr.String(), Node: e.Node, Reason: unlike(s.Ports, portText(name, f.Protocol))})
			}
		}
	}
	return rows
}

// unlike says that a slice has other ports than the one that is wanted.
func unlike(ports []topology.SlicePort, wanted string) string {
	if len(ports) == 0 {
		return "its slice has no ports"
	}
	var texts []string
	for _, p := range ports {
		texts = append(texts, portText(p.Name, p.Protocol))
	}
	return fmt.Sprintf("its slice has %s, and not %s: ports are matched by name", strings.Join(texts, ", "), wanted)
}

// portText is a port as it is matched, by its name.
func portText(name string, protocol topology.Protocol) string {
	if name == "" {
		name = "(unnamed)"
	}
	return name + "/" + protocol.String()
}
