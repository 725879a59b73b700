package render

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// udpShares deals the UDP listeners of a node. Who may write Services in one
// namespace must not take those of all: a Service has maxServiceUDP of a family,
// a namespace half of a node's, and what is free goes round the namespaces, so
// that after a restart, too, each has its first ones, whatever its name.
type udpShares struct {
	max, taken int
	services   map[udpShare]int
	namespaces map[string]int
	drains     *udpDrains
	over       [4]udpOver // by limit: Service, namespace, node, those that drain
}

type udpShare struct {
	service topology.ObjectKey
	ipv6    bool
}

// udpOver is who has no listener because of one limit.
type udpOver struct {
	why, cure string
	ports     int
	services  []topology.ObjectKey // one each, sorted
}

func newUDPShares(most int, drains *udpDrains) *udpShares {
	s := &udpShares{max: most, drains: drains, services: map[udpShare]int{}, namespaces: map[string]int{}}
	s.over[0].why = fmt.Sprintf("a Service has %d UDP listeners of a family at most", maxServiceUDP)
	s.over[1].why = fmt.Sprintf("a namespace has %d UDP listeners of a node at most", s.most())
	s.over[2].why = fmt.Sprintf("a node has %d UDP listeners at most", most)
	s.over[3].why = fmt.Sprintf("its namespace had %d UDP listeners end in %s, which Envoy holds that long", maxUDPDrains, udpDrainTime)
	for i := range s.over {
		s.over[i].cure = "give them fewer UDP ports"
	}
	s.over[3].cure = "wait until those are gone, and see who changes UDP ports or topologyKeys there again and again"
	return s
}

func (s *udpShares) most() int { return (s.max + 1) / 2 } // of a namespace

func (s *udpShares) take(f udpFrontend) {
	s.taken++
	s.services[shareOf(f)]++
	s.namespaces[f.service.Namespace]++
}

func shareOf(f udpFrontend) udpShare { return udpShare{f.service, f.Addr.Is6()} }

// deal returns who of those that wait has a listener now: first whose namespace
// has the fewest, and of a namespace each Service's first ports.
func (s *udpShares) deal(waiting []udpFrontend) (served []udpFrontend) {
	slices.SortFunc(waiting, func(a, b udpFrontend) int {
		return cmp.Or(a.service.Compare(b.service), a.Compare(b.Frontend))
	})
	turn := s.turns(waiting, func(f udpFrontend) any { return shareOf(f) }, func(f udpFrontend) int { return s.services[shareOf(f)] })
	turn = s.turns(turn, func(f udpFrontend) any { return f.service.Namespace }, func(f udpFrontend) int { return s.namespaces[f.service.Namespace] })
	for _, f := range turn {
		switch {
		case s.services[shareOf(f)] >= maxServiceUDP:
			s.refuse(0, f)
		case s.namespaces[f.service.Namespace] >= s.most():
			s.refuse(1, f)
		case s.taken >= s.max:
			s.refuse(2, f)
		case s.drains.full(f.service.Namespace):
			s.refuse(3, f)
		default:
			s.take(f)
			served = append(served, f)
		}
	}
	for i := range s.over {
		slices.SortFunc(s.over[i].services, topology.ObjectKey.Compare)
		s.over[i].services = slices.Compact(s.over[i].services)
	}
	return served
}

// turns sorts by how many of the same owner come before, those that it has
// among them.
func (s *udpShares) turns(list []udpFrontend, owner func(udpFrontend) any, has func(udpFrontend) int) []udpFrontend {
	type turn struct {
		udpFrontend
		n int
	}
	before, order := map[any]int{}, make([]turn, 0, len(list))
	for _, f := range list {
		key := owner(f)
		order = append(order, turn{f, has(f) + before[key]})
		before[key]++
	}
	slices.SortStableFunc(order, func(a, b turn) int { return cmp.Compare(a.n, b.n) })
	sorted := make([]udpFrontend, 0, len(list))
	for _, t := range order {
		sorted = append(sorted, t.udpFrontend)
	}
	return sorted
}

func (s *udpShares) refuse(limit int, f udpFrontend) {
	s.over[limit].ports++
	s.over[limit].services = append(s.over[limit].services, f.service)
}
