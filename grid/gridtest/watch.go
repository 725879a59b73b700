package gridtest

import (
	"maps"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// watch brings what is stored to a mirror, in order and late.
type watch struct {
	lag      time.Duration
	selector map[string]string // of kinds; "" for all
	wake     chan struct{}

	mu      sync.Mutex
	coming  []event
	held    map[plan.Ref]plan.Object
	changed map[plan.Ref]bool
}

type event struct {
	ref plan.Ref
	obj plan.Object // nil for a deletion
}

func newWatch(lag time.Duration) *watch {
	w := &watch{lag: lag, selector: map[string]string{}, wake: make(chan struct{}, 1), held: map[plan.Ref]plan.Object{}, changed: map[plan.Ref]bool{}}
	for _, k := range plan.Watches() {
		w.selector[k.Kind] = k.Selector
	}
	return w
}

// told sends an object on its way to the mirror; nil is one that is gone.
func (w *watch) told(ref plan.Ref, u *unstructured.Unstructured) {
	selector, watched := w.selector[ref.Kind]
	if !watched {
		return
	}
	e := event{ref: ref}
	if u != nil {
		if _, has := u.GetLabels()[selector]; has || selector == "" {
			e.obj = pruned(u)
		}
	}
	w.mu.Lock()
	w.coming = append(w.coming, e)
	w.mu.Unlock()
	if w.lag == 0 {
		w.deliver()
		return
	}
	time.AfterFunc(w.lag, w.deliver)
}

// deliver brings the oldest that is on its way.
func (w *watch) deliver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.coming) == 0 {
		return
	}
	e := w.coming[0]
	w.coming = w.coming[1:]
	old := w.held[e.ref]
	if e.obj == nil && old == nil {
		return
	}
	if w.held[e.ref] = e.obj; e.obj == nil {
		delete(w.held, e.ref)
	} else if sameButVersion(old, e.obj) {
		return // a heartbeat
	}
	w.changed[e.ref] = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// sameButVersion compares objects without metadata.resourceVersion.
func sameButVersion(a, b plan.Object) bool {
	if a == nil {
		return false
	}
	return reflect.DeepEqual(versionless(a), versionless(b))
}

func versionless(obj plan.Object) plan.Object {
	obj = maps.Clone(obj)
	metadata, _ := obj["metadata"].(plan.Object)
	metadata = maps.Clone(metadata)
	delete(metadata, "resourceVersion")
	obj["metadata"] = metadata
	return obj
}

// Wake implements grid.Mirror.
func (c *Cluster) Wake() <-chan struct{} { return c.watch.wake }

// Changes implements grid.Mirror.
func (c *Cluster) Changes(f func(kind, namespace, name string)) {
	w := c.watch
	w.mu.Lock()
	changed := w.changed
	w.changed = map[plan.Ref]bool{}
	w.mu.Unlock()
	for ref := range changed {
		f(ref.Kind, ref.Namespace, ref.Name)
	}
}

// Get implements grid.Mirror.
func (c *Cluster) Get(kind, namespace, name string) plan.Object {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return c.watch.held[plan.Ref{Kind: kind, Namespace: namespace, Name: name}]
}

// Relist has the mirror name all that it holds, as a new one does.
func (c *Cluster) Relist() {
	w := c.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref := range w.held {
		w.changed[ref] = true
	}
}

// Rewatch breaks the mirror's watch and has it list anew: of what was on its way
// it sees how it ended alone, and nothing of an object that came and went.
func (c *Cluster) Rewatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watch
	w.mu.Lock()
	w.coming = nil
	for ref := range w.held {
		if c.objects[ref] == nil {
			w.coming = append(w.coming, event{ref: ref})
		}
	}
	w.mu.Unlock()
	for ref, u := range c.objects {
		w.told(ref, u)
	}
	w.mu.Lock()
	n := len(w.coming)
	w.mu.Unlock()
	for range n {
		w.deliver()
	}
}
