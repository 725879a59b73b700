package feed

import (
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube/internal/lists"
	"github.com/gridmesh/gridmesh/topology"
)

// store is where a reflector puts one watch's objects: into the feed's
// builder.
type store[T runtime.Object, V any] struct {
	feed      *Feed
	resource  resource[T, V]
	log       *slog.Logger
	held      *holding[V]
	judge     lists.Judge[topology.ObjectKey]
	lookAgain func(time.Duration)
	news      func() // a list has something new
}

func newStore[T runtime.Object, V any](f *Feed, r resource[T, V], s selection, with ...*shared[V]) *store[T, V] {
	return &store[T, V]{
		feed: f, resource: r, log: f.log.With(obs.KeyWatch, s.Name), judge: lists.NewJudge[topology.ObjectKey](s.Selection),
		held: newHolding(with...), lookAgain: func(time.Duration) {}, news: func() {},
	}
}

// object is what is left of an object once it was converted.
type object[V any] struct {
	key    topology.ObjectKey
	weight int
	value  V
}

func (s *store[T, V]) convert(obj any) (*object[V], error) {
	switch obj := obj.(type) {
	case *object[V]:
		return obj, nil
	case T:
		key, err := keyOf(obj)
		if err != nil {
			return nil, err
		}
		return &object[V]{key: key, weight: s.resource.weight(obj), value: s.resource.convert(obj)}, nil
	}
	return nil, fmt.Errorf("watch %s delivered %T", s.judge.Name, obj)
}

// Transformer converts objects as they arrive, before thousands of them pile
// up. (Of a list in pages, client-go brings all pages to Replace first.)
func (s *store[T, V]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.convert(obj) }
}

// Add takes a watch event.
func (s *store[T, V]) Add(obj any) error {
	o, err := s.convert(obj)
	if err != nil {
		return err
	}
	delete(s.judge.Lost, o.key)
	s.feed.change(s.set(o))
	return nil
}

// Update takes a watch event.
func (s *store[T, V]) Update(obj any) error { return s.Add(obj) }

// Delete takes a watch event; it is believed at once.
func (s *store[T, V]) Delete(obj any) error {
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	delete(s.judge.Lost, key)
	s.feed.change(s.remove(key))
	return nil
}

// UpdateResourceVersion is called at every event, bookmarks included: the API
// server is there.
func (s *store[T, V]) UpdateResourceVersion(string) {
	s.feed.told(s.judge.Name)
	s.judge.Rest(s.feed.now())
}

// anchored reports whether a list has what every whole one has. Who may label that has it told
// by another watch, and stops nobody.
func (s *store[T, V]) anchored(next map[topology.ObjectKey]int) bool {
	key := parseKey(s.judge.Anchor)
	if _, has := next[key]; has {
		return true
	}
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	_, has := s.held.elsewhere(key)
	return has
}

// Resync has nothing to do: comparison is by content.
func (s *store[T, V]) Resync() error { return nil }

// Replace takes a list, if it is to be believed. One that is not is no error,
// for a reflector that is told of one begins anew at once, and leaves the watch
// of a watch-list open (client-go 0.37): it goes on with that watch until the
// list is looked at again.
func (s *store[T, V]) Replace(list []any, _ string) error {
	objects := make([]*object[V], 0, len(list))
	next := make(map[topology.ObjectKey]int, len(list))
	for _, obj := range list {
		o, err := s.convert(obj)
		if err != nil {
			return err
		}
		objects = append(objects, o)
		next[o.key] = o.weight
	}
	now := s.feed.now()
	s.judge.Lost.Forget(now)
	l := lists.Weigh(s.held.objects, func(h held[V]) int { return h.weight }, s.judge.Lost, next)
	l.Anchored = s.anchored(next)
	l.Alone = !s.feed.distrusts(s.judge.Name)
	if !s.judge.Believe(l, now) {
		s.doubt(now)
		return nil
	}
	s.feed.metrics.lists.WithLabelValues(s.judge.Name).Inc()
	edits := make([]edit, 0, len(objects)+1)
	for key := range s.held.objects {
		if _, stays := next[key]; !stays {
			edits = append(edits, s.remove(key))
		}
	}
	for _, o := range objects {
		edits = append(edits, s.set(o))
	}
	if s.feed.change(append(edits, s.feed.listed(s.judge.Name))...) {
		s.news()
	}
	return nil
}

// doubt leaves what is known as it is, and looks again later.
func (s *store[T, V]) doubt(now time.Time) {
	d := s.judge.Held
	s.feed.metrics.held.WithLabelValues(s.judge.Name).Inc()
	s.feed.doubts(s.judge.Name, d)
	if d.First() {
		s.log.Warn("a list of the API server is not believed; what was known stays", obs.KeyErr, d.Err)
	}
	s.lookAgain(s.judge.Next(now, s.feed.look))
}

func (s *store[T, V]) set(o *object[V]) edit {
	return func(b *topology.Builder) bool {
		changed := s.resource.set(b, o.key, o.value)
		s.held.set(o, changed)
		return changed
	}
}

// remove takes away what this watch has set, and nothing else: where a label
// moved the object to another watch, that one's stays.
func (s *store[T, V]) remove(key topology.ObjectKey) edit {
	return func(b *topology.Builder) bool {
		s.held.remove(key)
		if v, ok := s.held.elsewhere(key); ok {
			return s.resource.set(b, key, v)
		}
		return s.resource.remove(b, key)
	}
}

// keyOf names an object, or one of which the deletion was missed.
func keyOf(obj any) (topology.ObjectKey, error) {
	if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return parseKey(missed.Key), nil
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return topology.ObjectKey{}, fmt.Errorf("watch delivered %T: %w", obj, err)
	}
	return topology.ObjectKey{Namespace: m.GetNamespace(), Name: m.GetName()}, nil
}

// parseKey reads "namespace/name", or the name of an object without one.
func parseKey(text string) topology.ObjectKey {
	namespace, name, _ := cache.SplitMetaNamespaceKey(text)
	return topology.ObjectKey{Namespace: namespace, Name: name}
}
