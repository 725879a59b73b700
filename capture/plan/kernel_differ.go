package plan

import (
	"cmp"
	"iter"
	"math"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// move leads a frontend from one state to the next; nil is none.
type move struct {
	frontend topology.Frontend
	was, is  *held
}

// service is whose frontend it is, or was.
func (m move) service() string {
	if m.is != nil {
		return m.is.service
	}
	return m.was.service
}

// weigh is how many elements it is about, or somewhat more.
func (m move) weigh() int { return m.was.weigh() + m.is.weigh() }

func (h *held) weigh() int {
	if h == nil {
		return 0
	}
	return weighOf(len(h.slots)+len(h.nears), h.remembers())
}

// weighOf is how many elements a frontend of so many endpoints has, or somewhat more or less: those of
// the frontend alone count as one.
func weighOf(endpoints int, remembers bool) int {
	if remembers {
		endpoints *= topology.PerAffinity
	}
	return endpoints + 1
}

func (h *held) equal(o *held) bool {
	if h == nil || o == nil {
		return h == o
	}
	return h.front == o.front && h.near == o.near && h.outside == o.outside && h.local == o.local &&
		h.guard.equal(o.guard) && h.sameSlots(o)
}

func (h *held) sameSlots(o *held) bool {
	return slices.Equal(h.slots, o.slots) && slices.Equal(h.nears, o.nears)
}

// note adds a move, and what it means for flows.
func (c *KernelChange) note(m move) {
	if !m.was.equal(m.is) {
		c.moves = append(c.moves, m)
	}
	if m.frontend.Protocol == topology.UDP && (m.was == nil || m.is == nil || !m.was.sameSlots(m.is) || !slices.Equal(m.was.serving, m.is.serving)) {
		c.flows(m.frontend, m.is)
	}
}

// Parts are the elements that go and come, each part of so many or somewhat more: all of a
// frontend, and those first that are about little, so that nobody waits for another's thousands.
// What is in both with another value is replaced. What frontends share comes with the first part, and
// goes with the last.
func (c *KernelChange) Parts(size int) iter.Seq2[*KernelElements, *KernelElements] {
	slices.SortStableFunc(c.moves, func(a, b move) int { return cmp.Compare(a.weigh(), b.weigh()) })
	return c.AnyParts(size)
}

// AnyParts are Parts in any order, for who takes all of them before anybody waits.
func (c *KernelChange) AnyParts(size int) iter.Seq2[*KernelElements, *KernelElements] {
	c.written = map[string]int{}
	return func(yield func(gone, come *KernelElements) bool) {
		gone, come := &KernelElements{}, &KernelElements{Loops: c.AddLoops}
		for _, m := range c.moves {
			if n := gone.Len() + come.Len(); n > 0 && n+m.weigh() > size {
				if !yield(gone, come) {
					return
				}
				gone, come = &KernelElements{}, &KernelElements{}
			}
			before := gone.Len() + come.Len()
			m.differ(gone, come)
			c.written[m.service()] += gone.Len() + come.Len() - before
		}
		gone.Loops = c.DelLoops
		yield(gone, come)
	}
}

// all is one part.
func (c *KernelChange) all() (gone, come *KernelElements) {
	for gone, come = range c.Parts(math.MaxInt) {
		break // it is the only one
	}
	return gone, come
}

// differ adds what of a frontend goes and comes.
func (m move) differ(gone, come *KernelElements) {
	before, after := elementsOf(m.frontend, m.was), elementsOf(m.frontend, m.is)
	gone.Slots, come.Slots = apart(before.Slots, after.Slots, gone.Slots, come.Slots)
	gone.Names, come.Names = apart(before.Names, after.Names, gone.Names, come.Names)
	gone.Ends, come.Ends = apart(before.Ends, after.Ends, gone.Ends, come.Ends)
	gone.Selves, come.Selves = apart(before.Selves, after.Selves, gone.Selves, come.Selves)
	gone.Limits, come.Limits = apart(before.Limits, after.Limits, gone.Limits, come.Limits)
	gone.Policies, come.Policies = apart(before.Policies, after.Policies, gone.Policies, come.Policies)
	gone.Nears, come.Nears = apart(before.Nears, after.Nears, gone.Nears, come.Nears)
	gone.Fronts, come.Fronts = apart(before.Fronts, after.Fronts, gone.Fronts, come.Fronts)
}

// cost is how many elements differ adds, or somewhat more: what of a name stays counts, too.
func (m move) cost() int {
	if m.was.equal(m.is) {
		return 0
	}
	was, is := m.was.orNone(), m.is.orNone()
	alone, gone, come := move{m.frontend, m.was.alone(), m.is.alone()}, KernelElements{}, KernelElements{}
	alone.differ(&gone, &come)
	return gone.Len() + come.Len() + costOf(was.slots, is.slots, was.front, is.front) + costOf(was.nears, is.nears, was.near, is.near)
}

func (h *held) orNone() *held {
	if h == nil {
		return &held{}
	}
	return h
}

// alone is the frontend without endpoints.
func (h *held) alone() *held {
	if h == nil {
		return nil
	}
	return &held{service: h.service, front: h.front, near: h.near, outside: h.outside, local: h.local, guard: h.guard}
}

// What an endpoint has besides where clients are remembered, and what a frontend has that is another:
// it goes and comes.
const (
	perName  = topology.PerAffinity - 1
	perFront = 2
)

// costOf is how many elements of endpoints are others: slots, and where clients are remembered names.
func costOf(was, is []netip.AddrPort, before, after Pick) (n int) {
	both := min(len(was), len(is))
	for i := range both {
		if was[i] != is[i] {
			n += 2
		}
	}
	n += len(was) + len(is) - 2*both
	switch named, stays := before.Sticky > 0, after.Sticky > 0; {
	case named && stays && before.Session&1 == after.Session&1:
		return n + perName*n
	case named && stays: // all have other names
		return n + perName*(len(was)+len(is))
	case named:
		return n + perName*len(was)
	case stays:
		return n + perName*len(is)
	}
	return n
}

// flows adds who serves a frontend of UDP now: nobody, where it is gone.
func (c *KernelChange) flows(f topology.Frontend, is *held) {
	if c.UDP == nil {
		c.UDP = UDPServing{}
	}
	c.UDP[f.AddrPort()] = nil
	if is != nil {
		c.UDP[f.AddrPort()] = is.all()
	}
}

// apart adds what only one of two short lists has.
func apart[E comparable](before, after, gone, added []E) (goneToo, addedToo []E) {
	if slices.Equal(before, after) {
		return gone, added
	}
	gone, added = slices.Grow(gone, len(before)), slices.Grow(added, len(after)) // most of either, as a rule
	had := make(map[E]bool, len(before))
	for _, e := range before {
		had[e] = true
	}
	for _, e := range after {
		if !had[e] {
			added = append(added, e)
		}
		delete(had, e)
	}
	for _, e := range before {
		if had[e] {
			gone = append(gone, e)
		}
	}
	return gone, added
}

// elementsOf are the elements that a frontend does not share.
func elementsOf(f topology.Frontend, h *held) (e KernelElements) {
	if h == nil {
		return e
	}
	e.Fronts = []Front{{f, h.front}}
	e.Slots = make([]Slot, 0, len(h.slots)+len(h.nears))
	for i, to := range h.slots {
		e.Slots = append(e.Slots, Slot{f, uint32(i), to})
	}
	for i, to := range h.nears {
		e.Slots = append(e.Slots, Slot{f, uint32(NearSlot + i), to})
	}
	if h.outside {
		e.Policies = []Policy{{f, h.local}}
	}
	if h.local {
		e.Nears = []Front{{f, h.near}}
	}
	e.limit(f, h.guard)
	e.name(f, h.front, h.slots)
	e.name(f, h.near, h.nears)
	return e
}
