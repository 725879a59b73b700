package plan

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// KernelStage is a part of what a table that holds nothing is filled with: elements, and the
// chains that they lead to.
type KernelStage struct {
	Picks []Pick
	Lists []Ranges
	// Parts are its elements, each part of so many or somewhat more: all of a frontend that are of
	// this stage.
	Parts func(size int) iter.Seq[*KernelElements]
}

// Anew are the stages that lead to all of it from nothing, in the order in which most is served
// soonest. With the first one every frontend is served that remembers no clients, by its first
// endpoint alone: to that one gives way who picks another, which is not there yet. Then come all
// other endpoints, and at last those frontends that remember clients, whole, for these would stay
// with the one endpoint: each has chains of its own, and whoever has a thousand keeps nobody waiting.
func (p *KernelPlanner) Anew() []KernelStage {
	var plain, sticky []move
	for _, ipv6 := range []bool{false, true} { // a message is about one set
		for f, h := range p.held {
			switch {
			case f.Addr.Is6() != ipv6:
			case h.remembers():
				sticky = append(sticky, move{f, nil, h})
			default:
				plain = append(plain, move{f, nil, h})
			}
		}
	}
	picks := p.picks.sorted(Pick.compare)
	named := slices.DeleteFunc(slices.Clone(picks), func(p Pick) bool { return p.Sticky == 0 })
	picks = slices.DeleteFunc(picks, func(p Pick) bool { return p.Sticky > 0 })
	loops := p.loops.sorted(netip.Addr.Compare)
	return []KernelStage{
		{Picks: picks, Lists: p.Lists(), Parts: partsOf(plain, loops, func(f topology.Frontend, h *held) KernelElements {
			one := *h
			one.slots, one.nears = h.slots[:min(1, len(h.slots))], h.nears[:min(1, len(h.nears))]
			return elementsOf(f, &one)
		})},
		{Parts: partsOf(plain, nil, others)},
		{Picks: named, Parts: partsOf(sticky, nil, elementsOf)},
	}
}

// others are the endpoints that give way to the first ones.
func others(f topology.Frontend, h *held) (e KernelElements) {
	e.Slots = elementsOf(f, h).Slots
	e.Slots = slices.DeleteFunc(e.Slots, func(s Slot) bool { return s.Number%NearSlot == 0 })
	return e
}

// partsOf are moves from nothing, and of their elements what of chooses.
func partsOf(moves []move, loops []netip.Addr, of func(topology.Frontend, *held) KernelElements) func(size int) iter.Seq[*KernelElements] {
	return func(size int) iter.Seq[*KernelElements] {
		return func(yield func(*KernelElements) bool) {
			e := &KernelElements{Loops: loops}
			for _, m := range moves {
				if e.Len() >= size {
					if !yield(e) {
						return
					}
					e = &KernelElements{}
				}
				e.join(of(m.frontend, m.is))
			}
			yield(e)
		}
	}
}

// join adds others.
func (e *KernelElements) join(o KernelElements) {
	e.Slots, e.Names, e.Ends = append(e.Slots, o.Slots...), append(e.Names, o.Names...), append(e.Ends, o.Ends...)
	e.Selves, e.Limits, e.Policies = append(e.Selves, o.Selves...), append(e.Limits, o.Limits...), append(e.Policies, o.Policies...)
	e.Nears, e.Fronts = append(e.Nears, o.Nears...), append(e.Fronts, o.Fronts...)
}

// remembers reports whether clients keep an endpoint of it.
func (h *held) remembers() bool { return h.front.Sticky > 0 || h.near.Sticky > 0 }
