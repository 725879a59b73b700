package topology

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// mostLooks bounds the endpoints that are looked at to decide the frontends of one
// Service. Of one pattern all ports are decided at once, so that no Service that
// anybody means comes near.
const mostLooks = 1 << 20

// pattern is what a port's endpoints depend on, but for the number that it has in the
// first slice that has it: no rule asks for more of a number than whether it is
// another's, and which is greater.
type pattern struct {
	numbers     string // which slices have the port, and how far their numbers are from the first's
	most        int
	udp         bool
	ipv6, local bool
}

// decided is the answer of the first port of a pattern, and its number there.
type decided struct {
	answer
	number uint16
}

// ports refuses ports that differ too much from each other. It is none of the rules:
// they are not asked.
var ports = &rule{
	name:   "ports",
	reason: "the port is refused: the slices' numbers of the Service's ports differ in too many ways to decide all",
	cure:   "give each port of the Service the same number in all pods, or divide the ports among several Services",
}

// decide answers for a topic, as for the first port of its pattern.
func (i *inquiry) decide(about topic, most int, udp bool) answer {
	places := i.places(about)
	q := &question{evaluation: i.evaluation, scope: forTraffic, keys: i.view.Keys, local: about.local, most: most, udp: udp}
	if i.known == nil && len(i.service.Ports) == 1 {
		return i.answer(q, places) // nobody is like it
	}
	p, first := patternOf(places)
	p.most, p.udp, p.ipv6, p.local = most, udp, about.ipv6, about.local
	if was, known := i.patterns[p]; known {
		return was.at(first)
	}
	n := endpointsAt(places)
	if i.looked >= mostLooks && n > 0 {
		return i.refuse(q, places)
	}
	i.looked += n
	a := i.answer(q, places)
	if i.patterns == nil {
		i.patterns = map[pattern]decided{}
	}
	i.patterns[p] = decided{a, first}
	return a
}

// refuse leaves all endpoints out.
func (i *inquiry) refuse(q *question, places []place) answer {
	if i.explain == nil {
		return answer{refused: true, near: RankNone}
	}
	left := q.listLeft()
	q.rule = ports
	for _, c := range gather(places) {
		q.leaveOut(c)
	}
	return answer{refused: true, near: RankNone, left: *left}
}

// patternOf is the part of a pattern that places make, and the number at the first.
func patternOf(places []place) (p pattern, first uint16) {
	if len(places) == 0 {
		return p, 0
	}
	first = places[0].number
	key := make([]byte, 0, 64)
	for _, at := range places {
		key = binary.AppendUvarint(key, uint64(at.at))
		key = binary.AppendVarint(key, int64(at.number)-int64(first))
	}
	p.numbers = string(key)
	return p, first
}

// at is the answer for a port that has another number.
func (d decided) at(number uint16) answer {
	a := d.answer
	if number == d.number {
		return a
	}
	move := func(addr netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(addr.Addr(), addr.Port()-d.number+number)
	}
	a.tiers = slices.Clone(d.tiers)
	for i := range a.tiers {
		list := slices.Clone(a.tiers[i].Endpoints)
		for j := range list {
			list[j].Addr = move(list[j].Addr)
		}
		a.tiers[i].Endpoints = list
	}
	a.left = slices.Clone(d.left)
	for i := range a.left {
		a.left[i].Addr = move(a.left[i].Addr)
	}
	return a
}

// tellRefused says which ports have no decision.
func (i *inquiry) tellRefused() {
	if n := len(i.refused); n > 0 {
		i.view.problem("spec.ports", fmt.Sprintf("%d of its ports are refused, for the slices' numbers of its ports differ in too many ways to decide all; %s", n, ports.cure))
	}
}
