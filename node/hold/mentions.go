package hold

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// place is where a program is, whichever Service leads to it.
type place struct {
	addr netip.Addr
	node string
}

func (e Endpoint) place() place { return place{e.Addr, e.Node} }

// mention is what the slices of a Service say of an address on a node.
type mention struct {
	node                string
	listed, ready, good bool
}

// mentions are those of a Service, by address.
type mentions map[netip.Addr][]mention

// of is what is said of a place; it is not listed where nothing is.
func (m mentions) of(at place) mention {
	for _, said := range m[at.addr] {
		if said.node == at.node {
			return said
		}
	}
	return mention{node: at.node}
}

// said is what the slices of a Service say, read once in an Apply.
func (s *step) said(key topology.ObjectKey, is *topology.Entry) mentions {
	if said, read := s.mentions[key]; read {
		return said
	}
	said := mentions{}
	for _, slice := range is.Slices {
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			list := said[e.Addr]
			j := slices.IndexFunc(list, func(m mention) bool { return m.node == e.Node })
			if j < 0 {
				j, list = len(list), append(list, mention{node: e.Node, listed: true})
				said[e.Addr] = list
			}
			list[j].ready, list[j].good = list[j].ready || e.Ready, list[j].good || good(e)
		}
	}
	s.mentions[key] = said
	return said
}
