package admission

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// store is a cluster in memory, of one object a kind, with its mirror.
type store struct {
	wake chan struct{}
	deaf bool // nobody is woken

	mu      sync.Mutex
	err     error
	version int
	objects map[string]map[string]any // by kind
	writes  []string                  // kinds
}

func newStore() *store {
	return &store{wake: make(chan struct{}, 1), objects: map[string]map[string]any{}}
}

// away has the API server answer nothing but an error; nil for its end.
func (s *store) away(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// put writes an object, nil for none.
func (s *store) put(kind string, obj map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(kind, obj)
}

func (s *store) store(kind string, obj map[string]any) {
	if s.version++; obj != nil {
		meta, _ := obj["metadata"].(map[string]any)
		meta["resourceVersion"] = strconv.Itoa(s.version)
	}
	s.objects[kind] = obj
	if s.deaf {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Get implements Mirror.
func (s *store) Get(kind, _, _ string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clone(s.objects[kind])
}

// Wake implements Mirror.
func (s *store) Wake() <-chan struct{} { return s.wake }

// Live implements Asker.
func (s *store) Live(_ context.Context, kind, _, _ string) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clone(s.objects[kind]), s.err
}

// Merge implements Store.
func (s *store) Merge(_ context.Context, kind, _, name string, patch map[string]any) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.objects[kind]
	if s.err != nil {
		return nil, s.err
	}
	if live == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
	}
	if patch["metadata"].(map[string]any)["resourceVersion"] != live["metadata"].(map[string]any)["resourceVersion"] {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, nil)
	}
	next := merge(clone(live), clone(patch)).(map[string]any)
	s.store(kind, next)
	s.writes = append(s.writes, kind)
	return clone(next), nil
}

// written are the kinds of the writes so far.
func (s *store) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// merge is a merge patch (RFC 7386).
func merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := target.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for key, v := range changes {
		if v == nil {
			delete(out, key)
		} else {
			out[key] = merge(out[key], v)
		}
	}
	return out
}

func clone(obj map[string]any) (out map[string]any) {
	if obj == nil {
		return nil
	}
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}
