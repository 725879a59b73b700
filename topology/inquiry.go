package topology

import (
	"net/netip"
	"slices"
)

// inquiry is the questions about the frontends of one Service. What several of
// them lead to is asked once, and they share the answer.
type inquiry struct {
	*evaluation
	view        *ServiceView
	service     *Service
	ranges      map[bool][]netip.Prefix // of load balancers, by whether they are IPv6's; nil: nobody asked
	slices      []*Slice
	known       map[topic]answer           // nil where no question comes twice
	flows       map[topic][]netip.AddrPort // of known ones
	patterns    map[pattern]decided        // of ports that are alike
	index       map[placeKey][]place       // of all ports; nil while few are asked for
	asked       int                        // for places, without it
	looked      int                        // endpoints, to decide
	refused     map[portName]bool          // ports without a decision
	most        int                        // endpoints that a frontend may have; 0: no bound
	mostBesides bool                       // that is for what lies besides ClusterIPs
	bounded     bool                       // one had more
	boundedUDP  bool                       // one of UDP had more than Envoy holds
}

// topic is what a question is about: one port in one family, and whether the
// endpoints of this node alone are asked for.
type topic struct {
	ServicePort
	ipv6, local bool
}

// answer is who may answer a topic.
type answer struct {
	tiers   []Tier
	near    Rank
	more    bool         // than the tiers have may answer
	usable  bool         // no tier, but somewhere an endpoint that can be used, whoever may use it
	refused bool         // there is no decision
	ready   []netip.Addr // in the tiers
	left    []LeftOut    // for people
}

func (i *inquiry) ask(port ServicePort, ipv6, local bool) answer {
	about := topic{port, ipv6, local}
	if a, known := i.known[about]; known {
		return a
	}
	most, udp := i.boundOf(port.Protocol)
	a := i.decide(about, most, udp)
	i.bounded = i.bounded || a.more && !udp
	i.boundedUDP = i.boundedUDP || a.more && udp
	if a.refused {
		if i.refused == nil {
			i.refused = map[portName]bool{}
		}
		i.refused[portName{port.Name, port.Protocol}] = true
	}
	if i.known != nil {
		i.known[about] = a
	}
	return a
}

// answer asks the rules about a port that is at these places.
func (i *inquiry) answer(q *question, places []place) answer {
	var left *[]LeftOut
	if i.explain != nil {
		left = q.listLeft()
	}
	tiers := q.tiers(gather(places))
	a := answer{tiers: targets(tiers), near: q.near(tiers), more: q.bounded}
	if left != nil {
		a.left = *left
	}
	if len(tiers) == 0 {
		a.usable = q.usable(gather(places))
	}
	if i.known != nil {
		a.ready = readyIn(tiers)
	}
	return a
}

// usable reports whether somebody has an endpoint that can be used.
func (q *question) usable(list []candidate) bool {
	if q.leave = nil; q.keys.Mode == NoKeys {
		list = q.unique(list)
	}
	return slices.ContainsFunc(list, candidate.usable)
}

// listLeft has what the question leaves out listed.
func (q *question) listLeft() *[]LeftOut {
	list := &[]LeftOut{}
	q.leave = func(c candidate, by *rule) {
		*list = append(*list, LeftOut{Addr: c.target(), Node: c.Node, Rule: by.name, Reason: by.because(q, c), Cure: by.cures(q, c)})
	}
	return list
}

// tell explains what a frontend leaves out.
func (i *inquiry) tell(f Frontend, a answer) {
	for _, l := range a.left {
		i.explain(f, l)
	}
}

func readyIn(tiers []tier) (list []netip.Addr) {
	for _, t := range tiers {
		for _, c := range t.list {
			if c.Ready {
				list = append(list, c.Addr)
			}
		}
	}
	return list
}
