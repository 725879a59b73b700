package hold

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

const (
	// Settle is how long after its node's first report an endpoint is held: a
	// kubelet renews its lease every 10 s, but after a long outage may wait
	// half a minute before it watches its pods again, and writes their statuses
	// within 10 s then.
	Settle = 40 * time.Second
	// Bound is how long after the heal anything is held at all: nodes that
	// never report are not held up by their own silence.
	Bound = 90 * time.Second
)

// Hold is what is held after one outage. It has one owner.
//
// Law: what Apply returns differs from its argument in endpoints on nodes of
// the unit alone, which were ready before and are not any more.
type Hold struct {
	base     *topology.Snapshot
	unit     map[string]bool // nodes
	began    time.Time
	reported map[string]time.Time
	back     map[endpoint]bool
	made     map[topology.ObjectKey]made // by the last Apply
}

// endpoint is one address of one Service on one node.
type endpoint struct {
	service topology.ObjectKey
	addr    netip.Addr
	node    string
}

// made is an entry that was made of another, kept so that one that did not
// change stays the same pointer.
type made struct {
	of, entry *topology.Entry
	held      []endpoint
}

// New begins a hold when the cloud is heard of again. base is what was in force
// before, node is where we are; its unit are the nodes that share its value of
// any topology key in use, and itself.
func New(base *topology.Snapshot, node string, began time.Time) *Hold {
	return &Hold{base: base, unit: unit(base, node), began: began, reported: map[string]time.Time{}, back: map[endpoint]bool{}}
}

func unit(s *topology.Snapshot, node string) map[string]bool {
	values := map[string]string{} // of the keys in use
	if own, ok := s.Nodes.Get(node); ok {
		for _, e := range s.Services.All() {
			if e.Service == nil {
				continue
			}
			for _, key := range e.Keys().List {
				if value, ok := own.Labels[key]; ok {
					values[key] = value
				}
			}
		}
	}
	nodes := map[string]bool{node: true}
	for name, n := range s.Nodes.All() {
		for key, mine := range values {
			if theirs, ok := n.Labels[key]; ok && theirs == mine {
				nodes[name] = true
			}
		}
	}
	return nodes
}

// UnitSize is how many nodes the unit has.
func (h *Hold) UnitSize() int { return len(h.unit) }

// End is when nothing is held any more.
func (h *Hold) End() time.Time { return h.began.Add(Bound) }

// Reported notes that a node has reported to the cloud after the heal.
func (h *Hold) Reported(node string, at time.Time) {
	if _, had := h.reported[node]; !had {
		h.reported[node] = at
	}
}

// release is when the endpoints of a node are let go.
func (h *Hold) release(node string) time.Time {
	end := h.End()
	if at, ok := h.reported[node]; ok && at.Add(Settle).Before(end) {
		return at.Add(Settle)
	}
	return end
}

// Held is what is held at a moment.
type Held struct {
	Endpoints int
	Nodes     []string // of the endpoints, sorted
	Silent    []string // those of Nodes that have not reported, sorted
	// Next is when something is let go if nothing happens before; zero where
	// nothing is held.
	Next time.Time
}

// Apply returns the snapshot to use in the place of next: next itself where
// nothing is held.
func (h *Hold) Apply(next *topology.Snapshot, now time.Time) (*topology.Snapshot, Held) {
	if !now.Before(h.End()) {
		h.made = nil
		return next, Held{}
	}
	step := &step{Hold: h, next: next, now: now}
	kept := map[topology.ObjectKey]made{}
	var nodes []string
	count := 0
	for key := range next.Changed(h.base) {
		m, ok := step.service(key)
		if !ok {
			continue
		}
		kept[key] = m
		count += len(m.held)
		for _, e := range m.held {
			nodes = append(nodes, e.node)
		}
	}
	h.made = kept
	if count == 0 {
		return next, Held{}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	return h.snapshot(next, nodes), h.held(count, nodes)
}

func (h *Hold) held(endpoints int, nodes []string) Held {
	out := Held{Endpoints: endpoints, Nodes: nodes, Next: h.End()}
	for _, node := range nodes {
		if _, ok := h.reported[node]; !ok {
			out.Silent = append(out.Silent, node)
		}
		if at := h.release(node); at.Before(out.Next) {
			out.Next = at
		}
	}
	return out
}

// snapshot is next with what was made, and with the nodes of what is held.
func (h *Hold) snapshot(next *topology.Snapshot, nodes []string) *topology.Snapshot {
	out := *next
	services := next.Services.Edit()
	for key, m := range h.made {
		services.Set(key, m.entry)
	}
	out.Services = services.Freeze()
	edit := next.Nodes.Edit()
	for _, name := range nodes {
		if _, there := next.Nodes.Get(name); there {
			continue
		}
		if n, had := h.base.Nodes.Get(name); had {
			edit.Set(name, n)
		}
	}
	out.Nodes = edit.Freeze()
	return &out
}
