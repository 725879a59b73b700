package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/lists"
)

// Mirror holds all objects of some kinds, unstructured and pruned, and knows
// which of them changed. What it hands out must not be written to.
type Mirror struct {
	client dynamic.Interface
	bare   metadata.Interface
	kinds  map[string]Kind
	prune  func(obj map[string]any)
	wake   chan struct{}
	stores map[string]cache.SharedIndexInformer
	again  map[string]*lists.Again // by kind

	mu      sync.Mutex
	changed map[cache.ObjectName]map[string]bool // kinds by name
	faults  map[string]fault                     // by kind, the last
}

// fault is why a kind could not be followed.
type fault struct {
	err     error
	at      time.Time
	version string // of what was known then: with another it is followed again
}

// faultStands is how long a fault counts: a watch that goes on failing is
// tried more often.
const faultStands = 2 * time.Minute

// NewMirror mirrors kinds through c on Run. prune drops from an object what
// nobody needs; an object that is the same then has not changed. It may be given
// one that it has pruned.
func NewMirror(c *kube.Client, kinds []Kind, prune func(obj map[string]any)) *Mirror {
	m := &Mirror{
		client: c.Dynamic, bare: c.Metadata, kinds: map[string]Kind{}, prune: prune, wake: make(chan struct{}, 1),
		stores: map[string]cache.SharedIndexInformer{}, changed: map[cache.ObjectName]map[string]bool{},
		again: map[string]*lists.Again{}, faults: map[string]fault{},
	}
	for _, k := range kinds {
		m.kinds[k.Kind] = k
		m.again[k.Kind] = &lists.Again{}
		m.again[k.Kind].Of(c)
		m.stores[k.Kind] = newInformer(c.Dynamic, k, m.again[k.Kind], prune)
	}
	return m
}

// Run mirrors until ctx ends. ready is called once everything was listed.
func (m *Mirror) Run(ctx context.Context, ready func()) error {
	var wg sync.WaitGroup
	synced := make([]cache.InformerSynced, 0, len(m.stores))
	for kind, informer := range m.stores {
		err := informer.SetTransform(func(obj any) (any, error) {
			if u, ok := obj.(*unstructured.Unstructured); ok {
				m.prune(u.Object)
			}
			return obj, nil
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind, err)
		}
		err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			m.failed(kind, err)
			cache.DefaultWatchErrorHandler(ctx, r, err)
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind, err)
		}
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { m.touch(kind, obj) },
			UpdateFunc: func(a, b any) { m.updated(kind, a, b) },
			DeleteFunc: func(obj any) { m.touch(kind, obj) },
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind, err)
		}
		synced = append(synced, handler.HasSynced)
		wg.Go(func() { informer.RunWithContext(ctx); m.again[kind].Rest() })
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		ready()
	}
	wg.Wait()
	return nil
}

// failed notes why a kind is not followed. A watch that ends or is too old is
// begun again at once, and no fault.
func (m *Mirror) failed(kind string, err error) {
	if errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[kind] = fault{err, time.Now(), m.stores[kind].LastSyncResourceVersion()}
}

// Fault says which kinds cannot be followed, and why, or nil.
func (m *Mirror) Fault() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, kind := range slices.Sorted(maps.Keys(m.faults)) {
		if f := m.faults[kind]; time.Since(f.at) < faultStands && f.version == m.stores[kind].LastSyncResourceVersion() {
			errs = append(errs, fmt.Errorf("list and watch %s: %w", m.kinds[kind].Resource.GroupResource(), f.err))
		}
	}
	return errors.Join(errs...)
}

// updated ignores what changed in nothing but its version: a heartbeat.
func (m *Mirror) updated(kind string, before, now any) {
	a, okA := before.(*unstructured.Unstructured)
	b, okB := now.(*unstructured.Unstructured)
	if okA && okB && sameButVersion(a.Object, b.Object) {
		return
	}
	m.touch(kind, now)
}

// sameButVersion compares objects without metadata.resourceVersion.
func sameButVersion(a, b map[string]any) bool {
	x, _ := a["metadata"].(map[string]any)
	y, _ := b["metadata"].(map[string]any)
	return sameBut("metadata", a, b) && sameBut("resourceVersion", x, y)
}

// sameBut compares maps without one key.
func sameBut(but string, a, b map[string]any) bool {
	for key := range b {
		if _, ok := a[key]; !ok && key != but {
			return false
		}
	}
	for key, v := range a {
		if w, ok := b[key]; key != but && (!ok || !reflect.DeepEqual(v, w)) {
			return false
		}
	}
	return true
}

func (m *Mirror) touch(kind string, obj any) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return // no object of ours
	}
	m.again[kind].News()
	m.mu.Lock()
	if m.changed[name] == nil {
		m.changed[name] = map[string]bool{}
	}
	m.changed[name][kind] = true
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Wake fires after changes; it carries nothing.
func (m *Mirror) Wake() <-chan struct{} { return m.wake }

// Changes calls f for every object that changed since the last call.
func (m *Mirror) Changes(f func(kind, namespace, name string)) {
	m.mu.Lock()
	changed := m.changed
	m.changed = map[cache.ObjectName]map[string]bool{}
	m.mu.Unlock()
	for name, kinds := range changed {
		for kind := range kinds {
			f(kind, name.Namespace, name.Name)
		}
	}
}

// Get returns an object as it was last seen, or nil.
func (m *Mirror) Get(kind, namespace, name string) map[string]any {
	obj, ok, err := m.stores[kind].GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !ok {
		return nil
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	return u.Object
}
