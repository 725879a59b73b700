package typed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/lists"
)

// Selection is which objects of a kind are mirrored; the zero one is all.
type Selection struct {
	Labels string // a label selector
	Fields string // a field selector
}

// Mirror holds what is kept of the objects of a selection, by name, or by namespace/name
// where they have one. It may be asked by several at once; what it hands out must not be
// written to.
type Mirror[T any] struct {
	what   string
	client any // says whether it knows watch-lists
	sample runtime.Object
	lw     *cache.ListWatch
	keep   func(obj any) (T, bool)
	wake   chan struct{}
	ready  chan struct{} // closed by the first whole list

	again lists.Again

	mu      sync.Mutex
	all     map[string]T
	changed map[string]bool
	between map[string][]T // versions before the last that were not taken (Following)
	fault   error          // of the last request; nil where it was answered
	judge   *lists.Judge[string]

	replaces func(later, earlier T) bool // nil where it is not Following
}

// api is what the typed clients of all kinds have.
type api[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error)
}

// newMirror mirrors a kind, of whose objects keep makes what is kept.
func newMirror[T any, O any, L runtime.Object](what string, client any, of api[L], s Selection, sample runtime.Object, keep func(O) T) *Mirror[T] {
	m := &Mirror[T]{
		what: what, client: client, sample: sample, wake: make(chan struct{}, 1), ready: make(chan struct{}),
		all: map[string]T{}, changed: map[string]bool{},
		keep: func(obj any) (t T, ok bool) {
			o, ok := obj.(O)
			if ok {
				t = keep(o)
			}
			return t, ok
		},
	}
	m.lw = &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			m.again.List(&o)
			o.LabelSelector, o.FieldSelector = s.Labels, s.Fields
			list, err := of.List(ctx, o)
			if err == nil {
				err = m.again.Page(o, list)
			}
			m.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector, o.FieldSelector = s.Labels, s.Fields
			return m.again.Watch(ctx, o, func(ctx context.Context) (apiwatch.Interface, error) {
				w, err := kube.Answered(of.Watch(ctx, o))
				m.note(err)
				return w, err
			})
		},
	}
	return m
}

// by has a mirror follow where requests of a client go.
func (m *Mirror[T]) by(c *kube.Client) *Mirror[T] {
	m.again.Of(c)
	return m
}

// Run mirrors until ctx ends.
func (m *Mirror[T]) Run(ctx context.Context) error {
	defer m.again.Rest()
	lw := cache.ToListWatcherWithWatchListSemantics(m.lw, m.client)
	cache.NewReflectorWithOptions(lw, m.sample, store[T]{m}, cache.ReflectorOptions{Name: "gridmesh/" + m.what}).RunWithContext(ctx)
	return nil
}

// Ready is closed once everything was listed.
func (m *Mirror[T]) Ready() <-chan struct{} { return m.ready }

// Wake fires after changes of what is kept; it carries nothing.
func (m *Mirror[T]) Wake() <-chan struct{} { return m.wake }

// Fault says why the last request was not answered, or its list not believed, or nil.
func (m *Mirror[T]) Fault() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmp.Or(m.fault, m.doubted()); err != nil {
		return fmt.Errorf("list and watch %s: %w", m.what, err)
	}
	return nil
}

func (m *Mirror[T]) note(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = err
}

// Get is what is kept of an object.
func (m *Mirror[T]) Get(key string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.all[key]
	return t, ok
}

// All is what is kept of each object, by its key: a map of its own.
func (m *Mirror[T]) All() map[string]T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.all)
}

// Changes are the keys of which what is kept changed since the last call, sorted.
func (m *Mirror[T]) Changes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Sorted(maps.Keys(m.changed))
	clear(m.changed)
	clear(m.between)
	return list
}

func (m *Mirror[T]) tell() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// store is where a reflector puts objects.
type store[T any] struct{ *Mirror[T] }

// Add implements cache.ReflectorStore.
func (s store[T]) Add(obj any) error {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	t, ok := s.keep(obj)
	if !ok {
		return fmt.Errorf("%T is told as one of %s", obj, s.what)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told(key)
	s.set(key, t)
	return nil
}

func (s store[T]) set(key string, t T) (changed bool) {
	if was, ok := s.all[key]; ok {
		if reflect.DeepEqual(was, t) {
			return false
		}
		s.passes(key, was, t)
	}
	s.all[key], s.changed[key] = t, true
	s.tell()
	return true
}

// Update implements cache.ReflectorStore.
func (s store[T]) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s store[T]) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told(key)
	s.remove(key)
	return nil
}

func (s store[T]) remove(key string) {
	if _, ok := s.all[key]; ok {
		delete(s.all, key)
		delete(s.between, key)
		s.changed[key] = true
		s.tell()
	}
}

// Replace implements cache.ReflectorStore.
func (s store[T]) Replace(list []any, _ string) error {
	next := make(map[string]T, len(list))
	for _, obj := range list {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		t, ok := s.keep(obj)
		if !ok {
			return fmt.Errorf("%T is told as one of %s", obj, s.what)
		}
		next[key] = t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.believes(next, time.Now()) {
		return nil
	}
	news := false
	for key := range s.all {
		if _, ok := next[key]; !ok {
			s.remove(key)
			news = true
		}
	}
	for key, t := range next {
		news = s.set(key, t) || news
	}
	if news {
		s.again.News()
	}
	select {
	case <-s.ready:
	default:
		close(s.ready)
		s.tell()
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (store[T]) Resync() error { return nil }
