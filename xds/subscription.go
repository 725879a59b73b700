package xds

import (
	"maps"
	"slices"
	"strings"

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

// inflight is a response that Envoy has not answered yet, with what it held
// before, by the stream's account.
type inflight struct {
	names  []string
	before map[string]string
}

// subscription is what one stream knows of one type. It is a state machine
// without I/O: requests and changes go in, batches come out.
type subscription struct {
	typeURL   string
	wildcard  bool
	names     map[string]bool     // asked for by name
	sent      map[string]string   // name -> version that Envoy holds
	pending   map[string]bool     // dirty names; true: send even if unchanged
	oneByOne  []string            // to be sent singly after a NACK
	rejected  map[string]string   // name -> version that Envoy refused
	inflight  map[string]inflight // nonce -> response
	owesFirst bool                // a first answer is owed, even an empty one
	started   bool
}

func newSubscription(typeURL string) *subscription {
	return &subscription{
		typeURL: typeURL, names: map[string]bool{}, sent: map[string]string{}, pending: map[string]bool{},
		rejected: map[string]string{}, inflight: map[string]inflight{},
	}
}

// request takes what Envoy asks for. initial are the versions that a
// reconnected Envoy still holds.
func (s *subscription) request(cat *render.Catalog, subscribe, unsubscribe []string, initial map[string]string) (asked []string) {
	if !s.started {
		s.started = true
		for name, version := range initial {
			s.sent[name] = version
			s.mark(name, false)
		}
		if len(subscribe) == 0 && s.typeURL != render.EndpointType {
			subscribe = []string{"*"}
		}
		s.owesFirst = len(initial) == 0
	}
	for _, name := range subscribe {
		if name == "*" {
			if !s.wildcard {
				s.wildcard = true
				for _, eager := range cat.Wildcard(s.typeURL) {
					s.mark(eager, false)
				}
			}
			continue
		}
		s.names[name] = true
		asked = append(asked, name)
		// Asked again means forgotten: answer even what was sent before.
		_, holds := initial[name]
		s.mark(name, !holds)
	}
	for _, name := range unsubscribe {
		if name == "*" {
			s.wildcard = false
			continue
		}
		delete(s.names, name)
		delete(s.sent, name)
		delete(s.rejected, name)
	}
	return asked
}

// mark marks a name dirty; force sends it even if Envoy holds its version.
func (s *subscription) mark(name string, force bool) { s.pending[name] = s.pending[name] || force }

// markAll marks dirty everything that Envoy holds or asked for.
func (s *subscription) markAll(cat *render.Catalog) {
	if !s.started {
		return
	}
	for name := range s.sent {
		s.mark(name, false)
	}
	for name := range s.names {
		s.mark(name, false)
	}
	if s.wildcard {
		for _, name := range cat.Wildcard(s.typeURL) {
			s.mark(name, false)
		}
	}
}

// retry sends what was refused once more, one by one: the cause may lie on the
// node, as a port that was taken, and be gone.
func (s *subscription) retry() {
	names := slices.Sorted(maps.Keys(s.rejected))
	clear(s.rejected)
	s.oneByOne = append(s.oneByOne, names...)
}

// ack forgets the response and returns what Envoy took.
func (s *subscription) ack(nonce string) []string {
	f := s.inflight[nonce]
	delete(s.inflight, nonce)
	return f.names
}

// nack takes back what was believed of the response and returns the resource
// that is refused, if the response held no other.
func (s *subscription) nack(nonce string) (refused string) {
	f, ok := s.inflight[nonce]
	if !ok {
		return ""
	}
	delete(s.inflight, nonce)
	for _, name := range f.names {
		version := s.sent[name]
		if old, had := f.before[name]; had {
			s.sent[name] = old
		} else {
			delete(s.sent, name)
		}
		if len(f.names) == 1 {
			s.rejected[name] = version
			return name
		}
	}
	s.oneByOne = append(s.oneByOne, f.names...)
	return ""
}

// next returns the next response to send, or nil. changed names clusters
// whose endpoints must follow.
func (s *subscription) next(cat *render.Catalog) (b *batch, changed []string) {
	switch {
	case len(s.oneByOne) > 0 && len(s.inflight) > 0, len(s.inflight) >= maxInflight:
		return nil, nil
	case len(s.oneByOne) > 0:
		name := s.oneByOne[0]
		s.oneByOne = s.oneByOne[1:]
		b = &batch{}
		changed = s.evaluate(cat, name, true, b)
	case len(s.pending) > 0:
		b = &batch{}
		for _, name := range s.takePending() {
			changed = append(changed, s.evaluate(cat, name.name, name.force, b)...)
		}
	}
	if b == nil && !s.owesFirst {
		return nil, nil
	}
	if b == nil {
		b = &batch{}
	}
	if len(b.resources)+len(b.removed) == 0 && !s.owesFirst {
		return s.next(cat)
	}
	s.owesFirst = false
	return b, changed
}

type dirtyName struct {
	name  string
	force bool
}

func (s *subscription) takePending() []dirtyName {
	list := make([]dirtyName, 0, min(len(s.pending), maxBatchSize))
	for name, force := range s.pending {
		if len(list) == maxBatchSize {
			break
		}
		list = append(list, dirtyName{name, force})
		delete(s.pending, name)
	}
	slices.SortFunc(list, func(a, b dirtyName) int { return strings.Compare(a.name, b.name) })
	return list
}

// evaluate puts a name into the batch if Envoy holds something else.
func (s *subscription) evaluate(cat *render.Catalog, name string, force bool, b *batch) (changed []string) {
	had, held := s.sent[name]
	if held && cat.Provisional && !force {
		return nil // what Envoy holds is as new as the last good state, or newer
	}
	r, exists := cat.Resource(s.typeURL, name)
	if !exists || !s.subscribes(cat, name) {
		if held {
			b.removed = append(b.removed, name)
		}
		delete(s.rejected, name)
		return nil
	}
	if s.rejected[name] == r.Version || had == r.Version && held && !force {
		return nil
	}
	delete(s.rejected, name)
	b.resources = append(b.resources, r)
	if held && s.typeURL == render.ClusterType {
		changed = []string{name}
	}
	return changed
}

func (s *subscription) subscribes(cat *render.Catalog, name string) bool {
	if s.names[name] {
		return true
	}
	switch s.typeURL {
	case render.ClusterType:
		return s.wildcard && cat.Preloaded(name)
	case render.ListenerType:
		return s.wildcard
	}
	return false
}

// record notes that b went out under a nonce.
func (s *subscription) record(nonce string, b *batch) {
	f := inflight{before: map[string]string{}}
	for _, r := range b.resources {
		f.names = append(f.names, r.Name)
		if old, had := s.sent[r.Name]; had {
			f.before[r.Name] = old
		}
		s.sent[r.Name] = r.Version
	}
	for _, name := range b.removed {
		delete(s.sent, name)
	}
	s.inflight[nonce] = f
}
