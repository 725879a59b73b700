package kube

import (
	"context"
	"fmt"
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

// Mirror holds all objects of some kinds, unstructured and as they are at the
// API server. What it hands out must not be written to.
type Mirror struct {
	client dynamic.Interface
	kinds  map[string]Kind
	wake   chan struct{}
	stores map[string]cache.SharedIndexInformer
}

// NewMirror mirrors kinds through c on Run.
func NewMirror(c *Client, kinds []Kind) *Mirror {
	m := &Mirror{client: c.dynamic, kinds: map[string]Kind{}, wake: make(chan struct{}, 1), stores: map[string]cache.SharedIndexInformer{}}
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
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { m.changed() }, UpdateFunc: func(a, b any) { m.updated(a, b) }, DeleteFunc: func(any) { m.changed() },
		}); err != nil {
			return fmt.Errorf("watch %s: %w", kind, err)
		}
		synced = append(synced, informer.HasSynced)
		wg.Go(func() { informer.RunWithContext(ctx) })
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		ready()
		m.changed()
	}
	wg.Wait()
	return nil
}

func (m *Mirror) updated(before, now any) {
	a, okA := before.(*unstructured.Unstructured)
	b, okB := now.(*unstructured.Unstructured)
	if !okA || !okB || a.GetResourceVersion() != b.GetResourceVersion() {
		m.changed()
	}
}

func (m *Mirror) changed() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Wake fires after changes; it carries nothing.
func (m *Mirror) Wake() <-chan struct{} { return m.wake }

// List returns the objects of a kind, in no order.
func (m *Mirror) List(kind string) []map[string]any {
	list := m.stores[kind].GetStore().List()
	out := make([]map[string]any, 0, len(list))
	for _, obj := range list {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			out = append(out, u.Object)
		}
	}
	return out
}

func (m *Mirror) resource(kind, namespace string) dynamic.ResourceInterface {
	return m.client.Resource(m.kinds[kind].Resource).Namespace(namespace)
}

// Exists asks the API server itself: the mirror may hold a selection.
func (m *Mirror) Exists(ctx context.Context, kind, namespace, name string) (bool, error) {
	_, err := m.resource(kind, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %s %s/%s: %w", kind, namespace, name, err)
	}
	return true, nil
}

// Apply applies an object under a field manager, which takes what it names
// from every other one (server-side apply, KEP-555). It returns the object as
// it is then.
func (m *Mirror) Apply(ctx context.Context, obj map[string]any, manager string) (map[string]any, error) {
	u := &unstructured.Unstructured{Object: obj}
	out, err := m.resource(u.GetKind(), u.GetNamespace()).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return nil, fmt.Errorf("apply %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
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

// Annotate sets one annotation; "" removes it.
func (m *Mirror) Annotate(ctx context.Context, kind, namespace, name, key, value string) error {
	text := fmt.Sprintf("%q", value)
	if value == "" {
		text = "null"
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, text)
	_, err := m.resource(kind, namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("annotate %s %s/%s: %w", kind, namespace, name, err)
	}
	return nil
}

// Delete removes an object and, in the background, what it owns. One that is
// gone is no error.
func (m *Mirror) Delete(ctx context.Context, kind, namespace, name string) error {
	background := metav1.DeletePropagationBackground
	err := m.resource(kind, namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s/%s: %w", kind, namespace, name, err)
	}
	return nil
}
