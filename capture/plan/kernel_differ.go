package plan

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// differ adds to a change what leads a frontend from one state to the next;
// nil is none.
func differ(f topology.Frontend, was, is *held, c *KernelChange) {
	before, after := elementsOf(f, was), elementsOf(f, is)
	slots := len(c.Add.Slots) + len(c.Del.Slots)
	c.Del.Slots, c.Add.Slots = apart(before.Slots, after.Slots, c.Del.Slots, c.Add.Slots)
	c.Del.Names, c.Add.Names = apart(before.Names, after.Names, c.Del.Names, c.Add.Names)
	c.Del.Ends, c.Add.Ends = apart(before.Ends, after.Ends, c.Del.Ends, c.Add.Ends)
	c.Del.Selves, c.Add.Selves = apart(before.Selves, after.Selves, c.Del.Selves, c.Add.Selves)
	c.Del.Limits, c.Add.Limits = apart(before.Limits, after.Limits, c.Del.Limits, c.Add.Limits)
	c.Del.Policies, c.Add.Policies = apart(before.Policies, after.Policies, c.Del.Policies, c.Add.Policies)
	c.Del.Nears, c.Add.Nears = apart(before.Nears, after.Nears, c.Del.Nears, c.Add.Nears)
	c.Del.Fronts, c.Add.Fronts = apart(before.Fronts, after.Fronts, c.Del.Fronts, c.Add.Fronts)
	if f.Protocol == topology.UDP && (was == nil || len(c.Add.Slots)+len(c.Del.Slots) > slots || !slices.Equal(was.serving, serving(is))) {
		c.flows(f, is)
	}
}

// flows adds who serves a frontend of UDP now: nobody, where it is gone.
func (c *KernelChange) flows(f topology.Frontend, is *held) {
	if c.UDP == nil {
		c.UDP = UDPServing{}
	}
	c.UDP[f.AddrPort()] = nil
	if is != nil {
		c.UDP[f.AddrPort()] = slices.Concat(is.slots, is.nears, is.serving)
	}
}

func serving(h *held) []netip.AddrPort {
	if h == nil {
		return nil
	}
	return h.serving
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
