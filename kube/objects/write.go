package objects

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"
)

func (m *Mirror) resource(kind, namespace string) dynamic.ResourceInterface {
	return m.client.Resource(m.kinds[kind].Resource).Namespace(namespace)
}

// gone reports whether the API server says that there is no such object. A 404 that
// is not in its words says nothing of one: a load balancer says it, too, and who does
// not serve the kind.
func gone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Live asks the API server itself: the mirror may hold a selection, or lag. nil
// means that there is no such object; another is pruned.
func (m *Mirror) Live(ctx context.Context, kind, namespace, name string) (map[string]any, error) {
	u, err := m.resource(kind, namespace).Get(ctx, name, metav1.GetOptions{})
	if gone(err) {
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
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patch %s %s/%s: %w", kind, namespace, name, err)
	}
	out, err := m.resource(kind, namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("patch %s %s/%s: %w", kind, namespace, name, err)
	}
	m.prune(out.Object)
	return out.Object, nil
}

// WriteStatus replaces the status of an object with a UID. Of the object nothing
// but metadata comes back: it may be large.
func (m *Mirror) WriteStatus(ctx context.Context, kind, namespace, name, uid string, status any) error {
	patch := []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": uid},
		{"op": "add", "path": "/status", "value": status},
	}
	data, err := json.Marshal(patch)
	if err == nil {
		_, err = m.bare.Resource(m.kinds[kind].Resource).Namespace(namespace).Patch(ctx, name, types.JSONPatchType, data, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("patch the status of %s %s/%s: %w", kind, namespace, name, err)
	}
	return nil
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
	if err != nil && !gone(err) {
		return fmt.Errorf("delete %s %s/%s: %w", kind, namespace, name, err)
	}
	return nil
}
