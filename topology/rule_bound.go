package topology

import (
	"fmt"
	"slices"
)

// targetBounds are numbers of endpoints.
type targetBounds struct {
	// service is how many the frontends of a Service's ClusterIPs lead to, all
	// together; those outside, which share tiers with them, twice as many.
	service int
	// udp is how many a UDP frontend has that Envoy serves by keys.
	udp int
}

// PerAffinity is how many elements the kernel has of an endpoint whose clients are remembered: its
// number, its name, and what that means.
const PerAffinity = 3

// room is how many endpoints the frontends of ClusterIPs may lead to, all together.
func (i *inquiry) room() int {
	if i.remembers() {
		return max(1, i.targets.service/PerAffinity)
	}
	return i.targets.service
}

// remembers reports whether clients keep their endpoints, for which there has to be a kernel path.
func (i *inquiry) remembers() bool {
	return i.service.Affinity > 0 && i.view.Datapath != DatapathNone
}

// mostTargets bounds what two objects of one tenant may cost: ports times endpoints
// may be millions. 5,000 endpoints of 10 ports in two families have room, with a node
// port and an address outside of each. Envoy cannot ask for UDP when it is used, and
// so holds the endpoints of all its listeners at all times, 2 KiB each.
var mostTargets = targetBounds{service: 1 << 17, udp: 256}

// bound leaves endpoints out where the Service has too many for its ports: the
// nearest tiers have what there is, each later one an endpoint at least. Of a tier
// each node keeps others, so that together they use all of it.
var bound = &rule{
	name:   "bound",
	reason: "the Service has more ports and addresses times endpoints than a node keeps, and others of the tier are kept",
	detail: func(q *question, _ candidate) string {
		if q.udp {
			return fmt.Sprintf("Envoy holds %d endpoints of a UDP port at most, and others of the tier are kept", q.most)
		}
		return q.rule.reason
	},
	only: forTraffic,
	when: func(q *question) bool { return q.most > 0 },
	arrange: func(q *question, tiers []tier) []tier {
		free := q.most
		for i, t := range tiers {
			n := partOf(len(t.list), free, len(tiers)-i-1)
			if free -= n; n < len(t.list) {
				tiers[i].list, q.bounded = q.some(t.list, n), true
			}
		}
		return tiers
	},
}

// some keeps n endpoints, the same of each port, as long as they are there.
func (q *question) some(list []candidate, n int) []candidate {
	kept := make([]candidate, n)
	for i, at := range ownOrder(q.vp.Name, list, candidate.target) {
		if i < n {
			kept[i] = list[at]
		} else {
			q.leaveOut(list[at])
		}
	}
	return kept
}

// bound is how many endpoints each frontend may have; 0 for as many as there are.
// It goes by all endpoints of the slices, so it is the same on every node, and what
// nodes that reach few of them keep is not cut by it.
func (i *inquiry) bound() int {
	endpoints := 0
	for _, slice := range i.slices {
		endpoints += len(slice.Endpoints)
	}
	s, besides, room := i.service, i.view.besides, i.room()
	if len(s.Ports)*len(s.ClusterIPs)*endpoints <= room && besides*endpoints <= 2*room {
		return 0 // no Service that anybody means comes further
	}
	have := endpointsOf(i.slices)
	var inside, outside []int
	for _, ip := range s.ClusterIPs {
		for _, port := range s.Ports {
			n := have[portOf(port, ip.Is6())]
			if most := i.ofUDP(port.Protocol); most > 0 {
				n = min(n, most)
			}
			inside = append(inside, n)
		}
	}
	if besides > 0 {
		for port, d := range s.outside() {
			if outside = append(outside, have[portOf(port, d.Addr.Is6())]); len(outside) == besides {
				break
			}
		}
	}
	a, b := level(inside, room), level(outside, 2*room)
	if a == 0 || b > 0 && b < a {
		i.mostBesides = b > 0
		return b
	}
	return a
}

// ofUDP is how many endpoints a frontend of a protocol has at most because Envoy
// holds them all; 0 where that bounds nothing.
func (i *inquiry) ofUDP(p Protocol) int {
	if p != UDP || i.view.path(p) != PathEnvoy || i.view.Keys.Mode == NoKeys {
		return 0
	}
	return i.targets.udp
}

// boundOf is how many endpoints a frontend of a protocol may have, 0 for as many as
// there are, and whether that is for UDP's sake.
func (i *inquiry) boundOf(p Protocol) (most int, udp bool) {
	if most = i.ofUDP(p); most == 0 || i.most > 0 && i.most < most {
		return i.most, false
	}
	return most, true
}

// portOf is what a port of a Service is to slices.
func portOf(port ServicePort, ipv6 bool) topic {
	return topic{ServicePort: ServicePort{Name: port.Name, Protocol: port.Protocol}, ipv6: ipv6}
}

// endpointsOf counts the endpoints of each port, as gather finds them.
func endpointsOf(list []*Slice) map[topic]int {
	have := map[topic]int{}
	for _, slice := range list {
		ports := map[topic]bool{}
		for _, p := range slice.Ports {
			about := portOf(ServicePort{Name: p.Name, Protocol: p.Protocol}, slice.IPv6)
			if !ports[about] {
				ports[about] = true
				have[about] += len(slice.Endpoints)
			}
		}
	}
	return have
}

// level is the most that each may have so that all have no more than room: who has
// less leaves the rest to others. 0 where nobody has to be cut.
func level(each []int, room int) int {
	slices.Sort(each)
	for i, n := range each {
		if share := room / (len(each) - i); n > share {
			return max(1, share)
		}
		room -= n
	}
	return 0
}

// tellBound says what bound left out.
func (i *inquiry) tellBound() {
	if i.boundedUDP {
		i.view.problem("spec.ports", fmt.Sprintf("has UDP ports of more endpoints than the %d that Envoy holds of each, and leads to no others: to the nearest, and of those that are as near to others on each node; "+
			"run the agent with --datapath auto, where the kernel serves UDP, or divide the endpoints among several Services", i.targets.udp))
	}
	what, room, cure := "ports", i.room(), "divide the ports among several Services"
	if i.mostBesides {
		what, room, cure = "node ports and addresses", 2*room, "give it fewer addresses, or divide the ports among several Services"
	}
	if i.bounded {
		of := ""
		if i.remembers() {
			of = " whose clients keep their endpoints"
		}
		i.view.problem("spec.ports", fmt.Sprintf("has more %s times endpoints than the %d that a node keeps of a Service%s: each port leads to %d of its endpoints at most, "+
			"the nearest, and of those that are as near to others on each node; %s", what, room, of, i.most, cure))
	}
}
