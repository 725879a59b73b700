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
// Time in it is that of the cloud: now is when the cloud was last heard of, so
// that nothing is let go by a silence. A hold that the next outage interrupts
// stays as it is until that is over; the next hold then begins with what this
// one left in force.
//
// Law: what Apply returns differs from its argument in endpoints on nodes of
// the unit, as each Service's own keys have it, which were ready before and are
// not any more; and in Nodes that were deleted.
type Hold struct {
	base     *topology.Snapshot
	may      map[topology.ObjectKey][]wanted // what may be held, and nothing else is looked at
	nodes    map[string]bool                 // of these endpoints, and our own
	size     int
	index    *index
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
// before, node is where we are.
func New(base *topology.Snapshot, node string, began time.Time) *Hold {
	return newHold(base, node, began, false)
}

// NewAfterBoot is New where the node itself has booted meanwhile: the pods that
// base has on it are no more, and their addresses are others' to come.
func NewAfterBoot(base *topology.Snapshot, node string, began time.Time) *Hold {
	return newHold(base, node, began, true)
}

func newHold(base *topology.Snapshot, node string, began time.Time, booted bool) *Hold {
	h := &Hold{
		base: base, may: map[topology.ObjectKey][]wanted{}, nodes: map[string]bool{node: true},
		began: began, reported: map[string]time.Time{}, back: map[endpoint]bool{},
	}
	unit := newUnits(base, node)
	h.size = unit.size()
	for key, e := range base.Services.All() {
		if e.Service == nil {
			continue
		}
		keys := unit.keys(key, e)
		for _, slice := range e.Slices {
			for i := range slice.Endpoints {
				o := &slice.Endpoints[i]
				if good(o) && unit.near(o.Node, keys) && (!booted || o.Node != node) {
					h.may[key] = append(h.may[key], wanted{slice, o})
					h.nodes[o.Node] = true
				}
			}
		}
	}
	h.index = newIndex(h.may)
	return h
}

// UnitSize is how many nodes the unit has.
func (h *Hold) UnitSize() int { return h.size }

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
// nothing is held. It costs what may be held and what changed, however large
// the cluster.
func (h *Hold) Apply(next *topology.Snapshot, now time.Time) (*topology.Snapshot, Held) {
	if !now.Before(h.End()) {
		h.made = nil
		return next, Held{}
	}
	step := &step{Hold: h, next: next, now: now}
	kept := map[topology.ObjectKey]made{}
	var nodes []string
	count := 0
	for key := range h.may {
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
	slices.Sort(nodes)
	return h.snapshot(next), h.held(count, slices.Compact(nodes))
}

func (h *Hold) held(endpoints int, nodes []string) Held {
	if endpoints == 0 {
		return Held{}
	}
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

// snapshot is next with what was made, and with the Nodes that it lacks: this
// node's own, without which it has no unit, and those of what may be held,
// which are outside the unit without theirs however ready they are.
func (h *Hold) snapshot(next *topology.Snapshot) *topology.Snapshot {
	missing := h.missing(next)
	if len(h.made) == 0 && len(missing) == 0 {
		return next
	}
	out := *next
	services := next.Services.Edit()
	for key, m := range h.made {
		services.Set(key, m.entry)
	}
	out.Services = services.Freeze()
	nodes := next.Nodes.Edit()
	for _, n := range missing {
		nodes.Set(n.Name, n)
	}
	out.Nodes = nodes.Freeze()
	return &out
}

func (h *Hold) missing(next *topology.Snapshot) (list []*topology.Node) {
	for name := range h.nodes {
		if _, there := next.Nodes.Get(name); there {
			continue
		}
		if n, had := h.base.Nodes.Get(name); had {
			list = append(list, n)
		}
	}
	return list
}
