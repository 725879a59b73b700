package hold

import (
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// row is one endpoint of a snapshot, with all that it is a part of.
type row struct {
	Endpoint
	slice                       topology.ObjectKey
	port                        uint16 // 0: none; these histories have no slices of two
	ready, serving, terminating bool
}

// rows are the endpoints of a snapshot's Services.
func rows(s *topology.Snapshot) (list []row) {
	for key, entry := range s.Services.All() {
		for _, slice := range entry.Slices {
			for _, e := range slice.Endpoints {
				list = append(list, row{Endpoint{key, e.Addr, e.Node}, slice.Key, portOf(slice), e.Ready, e.Serving, e.Terminating})
			}
		}
	}
	return list
}

func portOf(s *topology.Slice) uint16 {
	if len(s.Ports) == 0 {
		return 0
	}
	return s.Ports[0].Port
}

func (r row) good() bool { return r.ready && !r.terminating }

// twin is a hold that looks at everything each time.
type twin struct {
	Start
	before, after []row // of the base, and of the snapshot that is judged
	may           []row // of before, what may be held
	began         time.Time
	reported      map[string]time.Time
	since         map[Endpoint]time.Time
	back          map[Endpoint]bool
	gone          map[topology.ObjectKey]bool // commanded
	last          []Endpoint                  // held
}

func newTwin(s Start) *twin {
	w := &twin{
		Start: s, before: rows(s.Base), began: s.Began.Add(-s.Past.Age), reported: map[string]time.Time{}, since: map[Endpoint]time.Time{},
		back: map[Endpoint]bool{}, gone: map[topology.ObjectKey]bool{},
	}
	for _, r := range w.before {
		if r.good() && unitOf(w.Base, w.Node, r.Endpoint) && (!w.Booted || r.Node != w.Node) {
			w.may = append(w.may, r)
			for _, p := range s.Past.Held {
				if p.Endpoint == r.Endpoint {
					w.since[p.Endpoint] = s.Began.Add(-min(p.For, Longest)) // no more counts
				}
			}
		}
	}
	return w
}

func (w *twin) report(node string, at time.Time) {
	if _, had := w.reported[node]; !had {
		w.reported[node] = at
	}
}

// ends is when an endpoint is let go.
func (w *twin) ends(e Endpoint) time.Time {
	list := []time.Time{w.began.Add(Bound)}
	if at, ok := w.reported[e.Node]; ok {
		list = append(list, at.Add(Settle))
	}
	if at, ok := w.since[e]; ok {
		list = append(list, at.Add(Longest))
	}
	return slices.MinFunc(list, time.Time.Compare)
}

// apply returns the rows and the Nodes that are to be in force, and what of the
// rows is held.
func (w *twin) apply(next *topology.Snapshot, now time.Time) (out []row, nodes []string, held Held) {
	w.after = rows(next)
	out = slices.Clone(w.after)
	for name := range next.Nodes.All() {
		nodes = append(nodes, name)
	}
	if !now.Before(w.began.Add(Bound)) {
		w.last, w.since = nil, nil
		return out, nodes, Held{}
	}
	ours := []string{w.Node}
	for _, r := range w.may {
		ours = append(ours, r.Node)
	}
	for _, name := range ours {
		if _, had := w.Base.Nodes.Get(name); had && !slices.Contains(nodes, name) {
			nodes = append(nodes, name)
		}
	}
	var kept []row
	for _, r := range w.may {
		if w.holds(r, next, append(ours, ""), now) && now.Before(w.ends(r.Endpoint)) {
			kept = append(kept, r)
		}
	}
	prev := w.last
	w.last = nil
	for _, r := range kept {
		if _, had := w.since[r.Endpoint]; !had {
			w.since[r.Endpoint] = now
		}
		w.last = append(w.last, r.Endpoint)
		found := false
		for i := range out {
			if out[i].Endpoint == r.Endpoint {
				out[i].ready, out[i].serving, out[i].terminating, found = r.ready, r.serving, r.terminating, true
			}
		}
		if !found || !slices.ContainsFunc(w.after, func(o row) bool { return o.Endpoint == r.Endpoint }) {
			out = append(out, r)
		}
	}
	w.newServices(out, prev, next, now)
	return out, nodes, w.held()
}

// newServices has rows of Services that the base does not have be ready where a
// row of before is held.
func (w *twin) newServices(out []row, prev []Endpoint, next *topology.Snapshot, now time.Time) {
	isNew := func(key topology.ObjectKey) bool {
		is, _ := next.Services.Get(key)
		was, _ := w.Base.Services.Get(key)
		return is != nil && is.Service != nil && !is.Service.Foreign && (was == nil || was.Service == nil)
	}
	has := func(e Endpoint, like func(row) bool) bool {
		return slices.ContainsFunc(w.after, func(o row) bool { return o.Endpoint == e && like(o) })
	}
	for e := range w.since {
		if isNew(e.Service) && has(e, row.good) {
			delete(w.since, e)
			if slices.Contains(prev, e) {
				w.back[e] = true
				w.report(e.Node, now)
			}
		}
	}
	old := w.last[:len(w.last):len(w.last)]
	for i := range out {
		r := &out[i]
		if !isNew(r.Service) || has(r.Endpoint, row.good) || w.back[r.Endpoint] {
			continue
		}
		since, had := w.since[r.Endpoint]
		begins, serves := had, false
		for _, o := range w.may {
			if w.gone[o.Service] || o.Addr != r.Addr || o.Node != r.Node || o.port != r.port || o.Service.Namespace != r.Service.Namespace {
				continue
			}
			at, doubted := w.since[o.Endpoint]
			is, _ := next.Services.Get(o.Service)
			if !doubted && !w.back[o.Endpoint] || is == nil || is.Service == nil {
				continue
			}
			held := slices.Contains(old, o.Endpoint)
			serves = serves || held || has(o.Endpoint, row.good)
			if !had && held && has(o.Endpoint, func(row) bool { return true }) && !has(o.Endpoint, func(o row) bool { return o.ready }) && (!begins || at.Before(since)) {
				since, begins = at, true
			}
		}
		if !begins || !serves {
			continue
		}
		w.since[r.Endpoint] = since
		if !now.Before(w.ends(r.Endpoint)) {
			continue
		}
		r.ready, r.serving, r.terminating = true, true, false
		if !slices.Contains(w.last, r.Endpoint) {
			w.last = append(w.last, r.Endpoint)
		}
	}
}

func (w *twin) held() (h Held) {
	for _, e := range w.last {
		if h.Endpoints++; h.Next.IsZero() || w.ends(e).Before(h.Next) {
			h.Next = w.ends(e)
		}
		if !slices.Contains(h.Nodes, e.Node) {
			h.Nodes = append(h.Nodes, e.Node)
			if _, ok := w.reported[e.Node]; !ok {
				h.Unreported = append(h.Unreported, e.Node)
			}
		}
	}
	slices.Sort(h.Nodes)
	slices.Sort(h.Unreported)
	return h
}

// holds reports whether a verdict is not to be believed; here are the nodes of
// what may be held.
func (w *twin) holds(r row, next *topology.Snapshot, here []string, now time.Time) bool {
	entry, _ := next.Services.Get(r.Service)
	if entry == nil || entry.Service == nil {
		return false
	}
	before, _ := w.Base.Services.Get(r.Service)
	was, is := before.Service, entry.Service
	w.gone[r.Service] = w.gone[r.Service] || was.Foreign != is.Foreign || was.Selector*is.Selector != 0 && was.Selector != is.Selector
	if w.gone[r.Service] {
		return false
	}
	had := func(like func(o row) bool) bool { return slices.ContainsFunc(w.before, like) }
	has := func(like func(o row) bool) bool { return slices.ContainsFunc(w.after, like) }
	if has(func(o row) bool { return o.Endpoint == r.Endpoint && o.good() }) {
		delete(w.since, r.Endpoint)
		if slices.Contains(w.last, r.Endpoint) {
			w.back[r.Endpoint] = true
			w.report(r.Node, now)
		}
		return false
	}
	if w.back[r.Endpoint] || has(func(o row) bool { // moved within the unit
		return o.Service == r.Service && o.Addr == r.Addr && o.Node != r.Node && slices.Contains(here, o.Node) &&
			!had(func(b row) bool { return b.Endpoint == o.Endpoint })
	}) {
		return false
	}
	if has(func(o row) bool { return o.Endpoint == r.Endpoint }) {
		return true
	}
	if has(func(o row) bool { // the address is another's
		return o.Service != r.Service && o.Addr == r.Addr && slices.Contains(here, o.Node) && sharePort(o.port, r.port) &&
			!had(func(b row) bool { return b.Endpoint == o.Endpoint && sharePort(b.port, r.port) })
	}) {
		return false
	}
	for key, e := range next.Services.All() {
		for _, slice := range e.Slices {
			if slice.Key == r.slice && (key != r.Service || portOf(slice) != r.port) {
				return false // it cannot go back there
			}
		}
	}
	return true
}

func sharePort(a, b uint16) bool { return a == b || a == 0 || b == 0 }

// unitOf is the dumb twin of what decides whether an endpoint is in a node's
// unit.
func unitOf(s *topology.Snapshot, node string, e Endpoint) bool {
	entry, _ := s.Services.Get(e.Service)
	if entry.Service == nil || e.Node == node {
		return entry.Service != nil
	}
	share := func(key string) bool {
		mine, _ := s.Nodes.Get(node)
		theirs, _ := s.Nodes.Get(e.Node)
		return mine != nil && theirs != nil && mine.Labels[key] != "" && mine.Labels[key] == theirs.Labels[key]
	}
	keys := ownKeys(entry)
	if len(keys) == 0 && entry.Keys().Mode != topology.Malformed {
		for k, o := range s.Services.All() {
			if k.Namespace == e.Service.Namespace {
				keys = append(keys, ownKeys(o)...)
			}
		}
	}
	return slices.ContainsFunc(keys, share)
}
