package hold

import (
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
	// never report are not waited for.
	Bound = 90 * time.Second
	// Longest is how long an endpoint is held in all, over however many heals
	// and restarts, since it was last ready. On a link that flaps a kubelet
	// finds its moment in this time; a pod that was deleted is not held for ever.
	Longest = 10 * time.Minute
)

// Hold is what is held after one outage. It has one owner.
//
// Time in it is that of the cloud: now is its last contact, so that
// nothing is let go without contact. A hold that the next outage interrupts
// stays as it is until that is over; the next hold then begins with what this
// one left in force, and with its Past.
//
// Law: what Apply returns differs from its argument in endpoints on nodes of
// the unit, as each Service's own keys have it, which were ready before and are
// not any more; in endpoints of Services that are new, at ports of these (see
// newServices); and in Nodes that were deleted.
type Hold struct {
	base     *topology.Snapshot
	may      map[topology.ObjectKey][]wanted // what may be held, and nothing else is looked at
	nodes    map[string]bool                 // of these endpoints, and our own
	size     int
	index    *index
	began    time.Time
	told     time.Time // by Clock, the last
	reported map[string]time.Time
	since    map[Endpoint]time.Time       // first held, since last ready; of holds before, too
	back     map[Endpoint]bool            // were held, and became ready
	made     map[topology.ObjectKey]*made // by the last Apply
}

// made is an entry that was made of another, kept so that one that did not
// change stays the same pointer.
type made struct {
	of, entry *topology.Entry
	held      []Endpoint
}

// Start is what a hold begins with.
type Start struct {
	Base  *topology.Snapshot // what was in force before
	Node  string             // where we are
	Began time.Time          // of the first contact after the outage
	// Booted: the node itself has booted meanwhile. The pods that Base has on
	// it are no more, and their addresses are others' to come.
	Booted bool
	Past   Past // what the hold before has left
}

// New begins a hold at the first contact with the cloud after an outage, or goes on with the one
// of the process before.
func New(s Start) *Hold {
	h := &Hold{
		base: s.Base, may: map[topology.ObjectKey][]wanted{}, nodes: map[string]bool{s.Node: true},
		began: s.Began.Add(-span(s.Past.Age)), told: s.Began, reported: map[string]time.Time{},
		since: map[Endpoint]time.Time{}, back: map[Endpoint]bool{},
	}
	past := map[Endpoint]time.Duration{}
	for _, p := range s.Past.Held {
		past[p.Endpoint] = p.For
	}
	unit := newUnits(s.Base, s.Node)
	h.size = unit.size()
	for key, e := range s.Base.Services.All() {
		if e.Service == nil {
			continue
		}
		keys := unit.keys(key, e)
		for _, slice := range e.Slices {
			for i := range slice.Endpoints {
				w := wanted{slice, &slice.Endpoints[i]}
				if !good(w.Endpoint) || !unit.near(w.Node, keys) || s.Booted && w.Node == s.Node {
					continue
				}
				h.may[key] = append(h.may[key], w)
				h.nodes[w.Node] = true
				if held, had := past[w.id(key)]; had {
					h.since[w.id(key)] = s.Began.Add(-span(held))
				}
			}
		}
	}
	h.index = newIndex(h.may)
	return h
}

// span is a time that may have been: a record on disk may say anything.
func span(d time.Duration) time.Duration { return min(max(0, d), Longest) }

// UnitSize is how many nodes the unit has.
func (h *Hold) UnitSize() int { return h.size }

// Clock tells the time, at least every few seconds, and whether the cloud speaks about everything
// at it. What passed since the last time does not count against End where it does not: a cloud that
// answers, but has said nothing of endpoints yet, may still say what is stale. What an endpoint is
// held in all goes on (Longest), and so does the time since its node reported.
func (h *Hold) Clock(now time.Time, speaks bool) {
	passed := now.Sub(h.told)
	if passed <= 0 {
		return
	}
	if !speaks {
		h.began = h.began.Add(passed)
	}
	h.told = now
}

// End is when nothing is held any more.
func (h *Hold) End() time.Time { return h.began.Add(Bound) }

// Reported notes that a node has reported to the cloud after the heal.
func (h *Hold) Reported(node string, at time.Time) {
	if _, had := h.reported[node]; !had {
		h.reported[node] = at
	}
}

// HasReported is of a node since the heal.
func (h *Hold) HasReported(node string) bool {
	_, had := h.reported[node]
	return had
}

// release is when an endpoint is let go: with the others of its node, or for
// it has been held for long enough.
func (h *Hold) release(e Endpoint) time.Time {
	end := h.End()
	if at, ok := h.reported[e.Node]; ok && at.Add(Settle).Before(end) {
		end = at.Add(Settle)
	}
	if since, ok := h.since[e]; ok && since.Add(Longest).Before(end) {
		end = since.Add(Longest)
	}
	return end
}

// Held is what is held at a moment.
type Held struct {
	Endpoints  int
	Nodes      []string // of the endpoints, sorted
	Unreported []string // those of Nodes that have not reported, sorted
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
		clear(h.since) // the next verdict is another one
		return next, Held{}
	}
	step := &step{Hold: h, next: next, now: now, mentions: map[topology.ObjectKey]mentions{}}
	kept := map[topology.ObjectKey]*made{}
	for key := range h.may {
		if m := step.service(key); m != nil {
			kept[key] = m
		}
	}
	step.newServices(kept)
	h.made = kept
	return h.snapshot(next), h.held()
}

func (h *Hold) held() (out Held) {
	for _, m := range h.made {
		for _, e := range m.held {
			if at := h.release(e); out.Endpoints == 0 || at.Before(out.Next) {
				out.Next = at
			}
			out.Endpoints++
			out.Nodes = append(out.Nodes, e.Node)
		}
	}
	slices.Sort(out.Nodes)
	out.Nodes = slices.Compact(out.Nodes)
	for _, node := range out.Nodes {
		if !h.HasReported(node) {
			out.Unreported = append(out.Unreported, node)
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
