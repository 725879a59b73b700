package kube

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/topology"
)

// ErrHeld means that a list was not believed; the reflector lists again.
var ErrHeld = errors.New("list is held back")

// store is where a reflector puts one watch's objects: into the feed's
// builder. It keeps the keys and weights alone.
type store struct {
	feed  *Feed
	watch *watchOf
	log   *slog.Logger
	known map[topology.ObjectKey]int // key -> weight
	doubt doubt
}

// doubt is a list that was held back.
type doubt struct {
	since  time.Time
	weight int
}

// Transformer trims objects before they pile up in a list.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if _, gone := obj.(cache.DeletedFinalStateUnknown); !gone {
			s.watch.trim(obj)
		}
		return obj, nil
	}
}

// Add takes a watch event.
func (s *store) Add(obj any) error {
	s.watch.trim(obj)
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	s.known[key] = s.watch.weight(obj)
	s.feed.change(s.watch.set(s.feed, obj))
	return nil
}

// Update takes a watch event.
func (s *store) Update(obj any) error { return s.Add(obj) }

// Delete takes a watch event; it is believed at once.
func (s *store) Delete(obj any) error {
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	delete(s.known, key)
	s.feed.change(s.watch.gone(s.feed, key))
	return nil
}

// UpdateResourceVersion is called at every event, bookmarks included: the API
// server is there.
func (s *store) UpdateResourceVersion(string) { s.feed.note(nil) }

// Resync has nothing to do: comparison is by content.
func (s *store) Resync() error { return nil }

// Replace takes a list, if it is to be believed.
func (s *store) Replace(list []any, _ string) error {
	next := make(map[topology.ObjectKey]int, len(list))
	for _, obj := range list {
		key, err := keyOf(obj)
		if err != nil {
			return err
		}
		next[key] = s.watch.weight(obj)
	}
	if err := s.believe(next); err != nil {
		s.feed.metrics.held.WithLabelValues(s.watch.name).Inc()
		s.log.Warn("a list of the API server is not believed; what was known stays", "err", err)
		return err
	}
	s.feed.metrics.lists.WithLabelValues(s.watch.name).Inc()
	edits := make([]func(*topology.Builder) bool, 0, len(list))
	for key := range s.known {
		if _, still := next[key]; !still {
			edits = append(edits, s.watch.gone(s.feed, key))
		}
	}
	for _, obj := range list {
		s.watch.trim(obj)
		edits = append(edits, s.watch.set(s.feed, obj))
	}
	s.known = next
	s.feed.change(func(b *topology.Builder) bool {
		changed := s.feed.missing[s.watch.name]
		delete(s.feed.missing, s.watch.name)
		for _, edit := range edits {
			changed = edit(b) || changed
		}
		return changed
	})
	return nil
}

// believe holds back a list without its anchor, and one that drops more than
// half until a second one, at least 10 s later, says the same.
func (s *store) believe(next map[topology.ObjectKey]int) error {
	if s.watch.anchor != "" {
		if _, ok := next[anchorKey(s.watch.anchor)]; !ok {
			return fmt.Errorf("%w: %s lacks %s, so it is not whole", ErrHeld, s.watch.name, s.watch.anchor)
		}
	}
	before, now := total(s.known), total(next)
	if now*2 >= before {
		s.doubt = doubt{}
		return nil
	}
	at := s.feed.now()
	if s.doubt.since.IsZero() || !about(s.doubt.weight, now) {
		s.doubt = doubt{since: at, weight: now}
	}
	if stood := at.Sub(s.doubt.since); stood < confirm {
		return fmt.Errorf("%w: %s would drop from %d to %d; waiting for a list %s later that agrees", ErrHeld, s.watch.name, before, now, confirm)
	}
	s.doubt = doubt{}
	return nil
}

// about tells whether two weights differ by less than a tenth.
func about(a, b int) bool { return 10*abs(a-b) <= max(a, b) }

func abs(n int) int { return max(n, -n) }

func total(m map[topology.ObjectKey]int) (n int) {
	for _, weight := range m {
		n += weight
	}
	return n
}

func anchorKey(text string) topology.ObjectKey {
	namespace, name, _ := cache.SplitMetaNamespaceKey(text)
	return topology.ObjectKey{Namespace: namespace, Name: name}
}

func keyOf(obj any) (topology.ObjectKey, error) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return anchorKey(gone.Key), nil
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return topology.ObjectKey{}, fmt.Errorf("watch delivered %T: %w", obj, err)
	}
	return topology.ObjectKey{Namespace: m.GetNamespace(), Name: m.GetName()}, nil
}
