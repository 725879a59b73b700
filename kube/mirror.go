package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/csaupgrade"
)

// Kind names objects that a Mirror holds.
type Kind struct {
	Resource schema.GroupVersionResource
	Kind     string
	Selector string // of labels; "" for all
}

// Mirror holds all objects of some kinds, unstructured and pruned, and knows
// which of them changed. What it hands out must not be written to.
type Mirror struct {
	client dynamic.Interface
	kinds  map[string]Kind
	prune  func(obj map[string]any)
	wake   chan struct{}
	stores map[string]cache.SharedIndexInformer

	mu      sync.Mutex
	changed map[cache.ObjectName]map[string]bool // kinds by name
}

// NewMirror mirrors kinds through c on Run. prune drops from an object what
// nobody needs; an object that is the same then has not changed.
func NewMirror(c *Client, kinds []Kind, prune func(obj map[string]any)) *Mirror {
	m := &Mirror{
		client: c.dynamic, kinds: map[string]Kind{}, prune: prune, wake: make(chan struct{}, 1),
		stores: map[string]cache.SharedIndexInformer{}, changed: map[cache.ObjectName]map[string]bool{},
	}
	for _, k := range kinds {
		m.kinds[k.Kind] = k
		m.stores[k.Kind] = dynamicinformer.NewFilteredDynamicInformer(c.dynamic, k.Resource, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
			o.LabelSelector = k.Selector
		}).Informer()
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
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { m.touch(kind, obj) },
			UpdateFunc: func(a, b any) { m.updated(kind, a, b) },
			DeleteFunc: func(obj any) { m.touch(kind, obj) },
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind, err)
		}
		synced = append(synced, handler.HasSynced)
		wg.Go(func() { informer.RunWithContext(ctx) })
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		ready()
	}
	wg.Wait()
	return nil
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

// Get returns an object as it was last heard of, or nil.
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

func (m *Mirror) resource(kind, namespace string) dynamic.ResourceInterface {
	return m.client.Resource(m.kinds[kind].Resource).Namespace(namespace)
}

// Live asks the API server itself: the mirror may hold a selection, or lag. nil
// means that there is no such object; another is pruned.
func (m *Mirror) Live(ctx context.Context, kind, namespace, name string) (map[string]any, error) {
	u, err := m.resource(kind, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", kind, namespace, name, err)
	}
	m.prune(u.Object)
	return u.Object, nil
}

// Apply applies an object under a field manager, which takes what it names
// from every other one (server-side apply, KEP-555); one with a
// metadata.resourceVersion fails where the object has another. It returns the
// object as it is then, pruned.
func (m *Mirror) Apply(ctx context.Context, obj map[string]any, manager string) (map[string]any, error) {
	u := &unstructured.Unstructured{Object: obj}
	out, err := m.resource(u.GetKind(), u.GetNamespace()).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return nil, fmt.Errorf("apply %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	m.prune(out.Object)
	return out.Object, nil
}

// Merge changes an object by a merge patch (RFC 7386); one with a
// metadata.resourceVersion fails where the object has another. It returns the
// object as it is then, pruned.
func (m *Mirror) Merge(ctx context.Context, kind, namespace, name string, patch map[string]any) (map[string]any, error) {
	return m.patch(ctx, kind, namespace, name, types.MergePatchType, patch)
}

// WriteStatus replaces the status of an object with a UID.
func (m *Mirror) WriteStatus(ctx context.Context, kind, namespace, name, uid string, status any) error {
	patch := []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": uid},
		{"op": "add", "path": "/status", "value": status},
	}
	_, err := m.patch(ctx, kind, namespace, name, types.JSONPatchType, patch, "status")
	return err
}

func (m *Mirror) patch(ctx context.Context, kind, namespace, name string, how types.PatchType, patch any, sub ...string) (map[string]any, error) {
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patch %s %s/%s: %w", kind, namespace, name, err)
	}
	out, err := m.resource(kind, namespace).Patch(ctx, name, how, data, metav1.PatchOptions{}, sub...)
	if err != nil {
		return nil, fmt.Errorf("patch %s %s/%s: %w", kind, namespace, name, err)
	}
	m.prune(out.Object)
	return out.Object, nil
}

// TakeOver gives a manager the fields that an older program wrote by updates,
// so that what a later apply leaves out goes away.
func (m *Mirror) TakeOver(ctx context.Context, kind, namespace, name, from, to string) error {
	api := m.resource(kind, namespace)
	live, err := api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("take over %s %s/%s: %w", kind, namespace, name, err)
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(from), to)
	if err == nil && len(patch) > 0 {
		_, err = api.Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("take over %s %s/%s: %w", kind, namespace, name, err)
	}
	return nil
}

// Delete removes an object of a version, "" for any, and, in the background,
// what it owns. One that is gone is no error.
func (m *Mirror) Delete(ctx context.Context, kind, namespace, name, version string) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if version != "" {
		options.Preconditions = &metav1.Preconditions{ResourceVersion: &version}
	}
	err := m.resource(kind, namespace).Delete(ctx, name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s/%s: %w", kind, namespace, name, err)
	}
	return nil
}
