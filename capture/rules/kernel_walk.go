package rules

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// KernelState is what the table of the kernel path holds.
type KernelState struct {
	plan.KernelElements
	Picks []plan.Pick // that it has chains for
	Lists []plan.Ranges
}

// KernelStateOf is what a planner says.
func KernelStateOf(p *plan.KernelPlanner) *KernelState {
	k := &KernelState{}
	k.KernelElements, k.Picks = p.Plan()
	k.Lists = p.Lists()
	return k
}

// table is that of the kernel path, with all its chains.
func (k *KernelState) table(cfg plan.Config) *Table {
	t := Kernel(cfg)
	for _, p := range k.Picks {
		t.Chains = append(t.Chains, PickChain(cfg, p))
	}
	for _, r := range k.Lists {
		t.Chains = append(t.Chains, ListChain(r.List))
	}
	return t
}

// elements are those of the kernel path; none where there is none.
func (w *walker) elements() *plan.KernelElements {
	if w.kernel == nil {
		return &plan.KernelElements{}
	}
	return &w.kernel.KernelElements
}

// Chains of a list and of a policy are jumped to, and the others are gone to.
func (t Dispatch) apply(w *walker) outcome {
	e, to := w.elements(), w.Packet.To
	if t.Map == Limited {
		i := slices.IndexFunc(e.Limits, func(l plan.Limit) bool { return l.Frontend == to })
		if w.found(t.Family, t.Map, i >= 0) == mismatch {
			return mismatch
		}
		w.jumpTo = ListName(e.Limits[i].List)
		return jumped
	}
	if t.Map == Policy {
		i := slices.IndexFunc(e.Policies, func(p plan.Policy) bool { return p.Frontend == to })
		if w.found(t.Family, t.Map, i >= 0) == mismatch {
			return mismatch
		}
		w.jumpTo = PolicyName(t.Family, e.Policies[i].Local)
		return jumped
	}
	list := map[SetName][]plan.Front{Front: e.Fronts, Near: e.Nears}[t.Map]
	i := slices.IndexFunc(list, func(f plan.Front) bool { return f.Frontend == to })
	if w.found(t.Family, t.Map, i >= 0) == mismatch {
		return mismatch
	}
	w.jumpTo = PickName(list[i].Pick)
	return gone
}

func (t FrontendFrom) apply(w *walker) outcome {
	to := w.Packet.To
	return w.found(t.Family, t.Set, to.Addr == w.Packet.Src && slices.Contains(w.elements().Selves, to))
}

// Which one is chosen nobody knows: it goes on to the one that the packet says.
func (t Choose) apply(w *walker) outcome {
	var ends []netip.AddrPort
	for _, s := range w.elements().Slots {
		if n := s.Number - First(t.Pick); s.Frontend == w.Packet.To && n < uint32(t.Pick.Among) {
			ends = append(ends, s.Endpoint)
		}
	}
	if w.found(t.Family, Slots, len(ends) > 0) == mismatch {
		return mismatch
	}
	slices.SortFunc(ends, netip.AddrPort.Compare)
	w.Ends = ends
	w.Packet.DNATed, w.Packet.ToNode = true, false
	end := ends[w.Packet.Chosen%len(ends)]
	w.Packet.To = topology.Frontend{Addr: end.Addr(), Port: end.Port(), Protocol: w.Packet.To.Protocol}
	return accepted
}

func (t Unremembered) apply(w *walker) outcome { return Choose(t).apply(w) }

// The first packet of a client that nobody remembers.
func (Remembered) apply(*walker) outcome { return mismatch }

// All that can be chosen have to be found by their names as by their numbers.
func (t Remember) apply(w *walker) outcome {
	e, to := w.elements(), w.Packet.To
	for _, s := range e.Slots {
		if n := s.Number - First(t.Pick); s.Frontend != to || n >= uint32(t.Pick.Among) {
			continue
		}
		i := slices.IndexFunc(e.Names, func(x plan.Name) bool { return x.Frontend == to && x.Number == s.Number })
		if i < 0 || !slices.Contains(e.Ends, plan.End{Frontend: to, ID: e.Names[i].ID, Endpoint: s.Endpoint}) {
			return mismatch
		}
	}
	w.named = true
	return Choose(t).apply(w)
}
