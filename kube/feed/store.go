package feed

import (
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/topology"
)

// store is where a reflector puts one watch's objects: into the feed's
// builder. It keeps their keys and weights alone.
type store[T runtime.Object, V any] struct {
	feed     *Feed
	resource resource[T, V]
	watch    string
	log      *slog.Logger
	known    weights
	judge    judge
}

func newStore[T runtime.Object, V any](f *Feed, r resource[T, V], s selection) *store[T, V] {
	return &store[T, V]{
		feed: f, resource: r, watch: s.name, log: f.log.With(obs.KeyWatch, s.name), known: weights{},
		judge: judge{watch: s.name, anchor: s.anchor},
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
	return nil, fmt.Errorf("watch %s delivered %T", s.watch, obj)
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
	s.known[o.key] = o.weight
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
	delete(s.known, key)
	s.feed.change(s.remove(key))
	return nil
}

// UpdateResourceVersion is called at every event, bookmarks included: the API
// server is there.
func (s *store[T, V]) UpdateResourceVersion(string) { s.feed.note(nil) }

// Resync has nothing to do: comparison is by content.
func (s *store[T, V]) Resync() error { return nil }

// Replace takes a list, if it is to be believed.
func (s *store[T, V]) Replace(list []any, _ string) error {
	objects := make([]*object[V], 0, len(list))
	next := make(weights, len(list))
	for _, obj := range list {
		o, err := s.convert(obj)
		if err != nil {
			return err
		}
		objects = append(objects, o)
		next[o.key] = o.weight
	}
	if err := s.judge.believe(s.known, next, s.feed.now()); err != nil {
		s.feed.metrics.held.WithLabelValues(s.watch).Inc()
		s.log.Warn("a list of the API server is not believed; what was known stays", obs.KeyErr, err)
		return err
	}
	s.feed.metrics.lists.WithLabelValues(s.watch).Inc()
	edits := make([]edit, 0, len(objects)+1)
	for key := range s.known {
		if _, still := next[key]; !still {
			edits = append(edits, s.remove(key))
		}
	}
	for _, o := range objects {
		edits = append(edits, s.set(o))
	}
	s.known = next
	s.feed.change(append(edits, s.feed.listed(s.watch))...)
	return nil
}

func (s *store[T, V]) set(o *object[V]) edit {
	return func(b *topology.Builder) bool { return s.resource.set(b, o.key, o.value) }
}

func (s *store[T, V]) remove(key topology.ObjectKey) edit {
	return func(b *topology.Builder) bool { return s.resource.remove(b, key) }
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
