package xds

import (
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/xds/render"
)

// Limits of one type on one stream.
const (
	maxInflight  = 8   // responses without an answer
	maxBatchSize = 500 // names in one response
)

// batch is one response to be sent, in names.
type batch struct {
	resources []render.Resource
	removed   []string
}

// inflight is a response that Envoy has not answered yet.
type inflight struct {
	nonce   string
	names   []string           // resources, then removals
	changes map[string]*change // without those that Envoy gave back since
}

// change is what a response does to one name.
type change struct {
	version string // "": removed
	before  string // what Envoy held before; "": nothing
}

// subscription is what one stream knows of one type. It is a state machine
// without I/O: requests and changes go in, batches come out.
type subscription struct {
	typeURL   string
	wildcard  bool
	names     map[string]bool   // asked for by name
	bytes     int               // of those
	sent      map[string]string // name -> version that Envoy holds
	pending   map[string]bool   // dirty names; true: send even if unchanged
	oneByOne  []string          // to be sent singly after a NACK
	rejected  map[string]string // name -> version that Envoy refused; "": its removal
	inflight  []*inflight       // oldest first
	owesFirst bool              // a first answer is owed, even an empty one
	started   bool
	resumed   bool            // by an Envoy that held something already
	room      room            // for names that are answered because they were asked for
	over      map[string]bool // asked for beyond it
	kept      kept            // held, and not wanted any more
	crowded   bool            // some of those had to go
	parts     parts           // of endpoints
	resized   []string        // names whose part is another; they wait until nobody waits for others
}

func newSubscription(typeURL string) *subscription {
	return &subscription{
		typeURL: typeURL, names: map[string]bool{}, sent: map[string]string{}, pending: map[string]bool{},
		rejected: map[string]string{}, over: map[string]bool{}, room: newRoom(0), kept: newKept(), parts: newParts(0),
	}
}

// request takes what Envoy asks for. initial are the versions that a
// reconnected Envoy still holds, by name; they count in the first request only.
// What it gets no answer to for want of room is asked for as well: it may be
// preloaded in its turn.
func (s *subscription) request(cat *render.Catalog, subscribe, unsubscribe []string, initial map[string]string) (asked []string) {
	if s.started {
		initial = nil
	} else {
		subscribe = s.start(cat, subscribe, initial)
	}
	for _, name := range heldFirst(subscribe, initial) {
		if name == "*" {
			s.subscribeAll(cat)
			continue
		}
		s.note(name)
		// Asked again means forgotten: answer even what was sent before.
		_, holds := initial[name]
		s.mark(cat, name, !holds)
		asked = append(asked, name)
		if s.admit(cat, name, holds) {
			delete(s.over, name)
		} else {
			s.over[name] = true
		}
	}
	for _, name := range unsubscribe {
		s.unsubscribe(cat, name)
	}
	return asked
}

// start takes the first request and returns what it subscribes to.
func (s *subscription) start(cat *render.Catalog, subscribe []string, initial map[string]string) []string {
	s.started = true
	for name, version := range initial {
		s.sent[name] = version
		s.mark(cat, name, false)
	}
	s.owesFirst, s.resumed = len(initial) == 0, len(initial) > 0
	if len(subscribe) == 0 && s.typeURL != render.EndpointType {
		return []string{"*"}
	}
	return subscribe
}

func (s *subscription) subscribeAll(cat *render.Catalog) {
	if s.wildcard {
		return
	}
	s.wildcard = true
	for _, name := range cat.Wildcard(s.typeURL) {
		s.mark(cat, name, false)
	}
}

func (s *subscription) unsubscribe(cat *render.Catalog, name string) {
	if name == "*" {
		s.wildcard = false
		s.forgetUnnamed()
		return
	}
	s.drop(name)
	s.measure(cat, name)
	delete(s.over, name)
	s.room.leave(name)
	_, holds := s.sent[name]
	switch {
	case !s.wildcard:
		s.forget(name)
	case holds:
		// Envoy cannot know whether the wildcard covers the name: it is sent
		// or removed (xDS protocol, "Unsubscribing from resources").
		s.mark(cat, name, true)
	case !s.subscribes(cat, name):
		delete(s.pending, name)
		delete(s.rejected, name)
	}
}

// forget drops what is known of a name that Envoy gave back.
func (s *subscription) forget(name string) {
	delete(s.sent, name)
	delete(s.pending, name)
	delete(s.rejected, name)
	s.kept.leave(name)
	for _, f := range s.inflight {
		delete(f.changes, name)
	}
}

// forgetUnnamed forgets all that was not asked for by name.
func (s *subscription) forgetUnnamed() {
	all := slices.Concat(slices.Collect(maps.Keys(s.sent)), slices.Collect(maps.Keys(s.pending)), slices.Collect(maps.Keys(s.rejected)))
	for _, f := range s.inflight {
		all = append(all, f.names...)
	}
	for _, name := range all {
		if !s.names[name] {
			s.forget(name)
		}
	}
}

// ack forgets the response and returns the names that Envoy took.
func (s *subscription) ack(nonce string) (took []string) {
	if f, _ := s.answered(nonce); f != nil {
		return f.names
	}
	return nil
}

// nack takes back what the response was to change and returns the name that is
// refused, if the response held no other.
func (s *subscription) nack(nonce string) (refused string) {
	f, later := s.answered(nonce)
	if f == nil {
		return ""
	}
	for _, name := range f.names {
		c := f.changes[name]
		if c == nil {
			continue // given back since
		}
		superseded := s.undo(name, c, later)
		if len(f.names) > 1 {
			s.oneByOne = append(s.oneByOne, name)
			continue
		}
		refused = name
		if !superseded {
			s.rejected[name] = c.version
		}
	}
	return refused
}

// undo takes back one change; what was sent later decides, if anything was.
func (s *subscription) undo(name string, c *change, later []*inflight) (superseded bool) {
	for _, f := range later {
		if next := f.changes[name]; next != nil {
			next.before = c.before
			return true
		}
	}
	if c.before == "" {
		delete(s.sent, name)
		s.kept.leave(name)
	} else {
		s.sent[name] = c.before
	}
	return false
}

// answered takes the response of a nonce out of what is unanswered, and
// returns what was sent after it, too; nil where there is none.
func (s *subscription) answered(nonce string) (f *inflight, later []*inflight) {
	i := slices.IndexFunc(s.inflight, func(f *inflight) bool { return f.nonce == nonce })
	if i < 0 {
		return nil, nil
	}
	f = s.inflight[i]
	s.inflight = slices.Delete(s.inflight, i, i+1)
	return f, s.inflight[i:]
}

// next returns the next response to send, or nil. changed are the clusters in
// it that Envoy held already: their endpoints must follow.
func (s *subscription) next(cat *render.Catalog) (b *batch, changed []string) {
	s.resized = append(s.resized, s.parts.fit()...)
	for {
		s.giveWay()
		names := s.take()
		if len(names) == 0 && s.markResized(cat) {
			names = s.take()
		}
		if len(names) == 0 && !s.owesFirst {
			return nil, nil
		}
		b = &batch{}
		for _, n := range names {
			if _, holds := s.sent[n.name]; s.evaluate(cat, n.name, n.force, b) && holds && s.typeURL == render.ClusterType {
				changed = append(changed, n.name)
			}
		}
		if len(b.resources)+len(b.removed) > 0 || s.owesFirst {
			s.owesFirst = false
			return b, changed
		}
	}
}

// evaluate puts a name into the batch if Envoy holds something else, and
// reports whether it added a resource.
func (s *subscription) evaluate(cat *render.Catalog, name string, force bool, b *batch) (added bool) {
	version, holds := s.sent[name]
	if holds && cat.Provisional && !force {
		return false // what Envoy holds is as new as the last good state, or newer
	}
	if s.over[name] && !s.admitted(cat, name) {
		if force { // ends the connections that wait for it
			b.removed = append(b.removed, name)
		}
		return false
	}
	refused, isRefused := s.rejected[name]
	r, found := s.resource(cat, name)
	if !found || !s.subscribes(cat, name) {
		if holds && (isRefused && refused == "" || !force && s.keep(cat, name)) {
			return false
		}
		delete(s.rejected, name)
		if holds {
			b.removed = append(b.removed, name)
		}
		return false
	}
	s.kept.leave(name)
	if isRefused && refused == r.Version || holds && !force && r.Suffices(version) {
		return false
	}
	delete(s.rejected, name)
	b.resources = append(b.resources, r)
	return true
}

// record notes that b went out under a nonce.
func (s *subscription) record(nonce string, b *batch) {
	f := &inflight{nonce: nonce, changes: map[string]*change{}}
	for _, r := range b.resources {
		f.names = append(f.names, r.Name)
		f.changes[r.Name] = &change{version: r.Version, before: s.sent[r.Name]}
		s.sent[r.Name] = r.Version
	}
	for _, name := range b.removed {
		f.names = append(f.names, name)
		f.changes[name] = &change{before: s.sent[name]}
		delete(s.sent, name)
		s.kept.leave(name)
	}
	s.inflight = append(s.inflight, f)
}
