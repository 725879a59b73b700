package plan

import (
	"iter"
	"net/netip"
	"slices"
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
// endpoint alone: to that one gives way who picks another, which is not there yet. Then come
// those that remember clients, whole, for these would stay with the one endpoint; at last come all
// other endpoints.
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
		{Picks: picks, Lists: p.Lists(), Parts: partsOf(plain, loops, func(e *KernelElements) *KernelElements {
			e.Slots = slices.DeleteFunc(e.Slots, func(s Slot) bool { return !s.first() })
			return e
		})},
		{Picks: named, Parts: partsOf(sticky, nil, func(e *KernelElements) *KernelElements { return e })},
		{Parts: partsOf(plain, nil, func(e *KernelElements) *KernelElements {
			return &KernelElements{Slots: slices.DeleteFunc(e.Slots, Slot.first)}
		})},
	}
}

// partsOf are moves from nothing, and of their elements what of chooses.
func partsOf(moves []move, loops []netip.Addr, of func(*KernelElements) *KernelElements) func(size int) iter.Seq[*KernelElements] {
	return func(size int) iter.Seq[*KernelElements] {
		return func(yield func(*KernelElements) bool) {
			c := &KernelChange{moves: moves, AddLoops: loops}
			for _, come := range c.AnyParts(size) {
				if !yield(of(come)) {
					return
				}
			}
		}
	}
}

// first reports whether it is the one to which others give way.
func (s Slot) first() bool { return s.Number%NearSlot == 0 }

// remembers reports whether clients keep an endpoint of it.
func (h *held) remembers() bool { return h.front.Sticky > 0 || h.near.Sticky > 0 }
