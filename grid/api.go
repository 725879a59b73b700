package grid

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Mirror is what is known of the cluster. It may lag behind what was written.
type Mirror interface {
	// Wake fires after changes; it carries nothing.
	Wake() <-chan struct{}
	// Changes names every object that changed since the last call.
	Changes(f func(kind, namespace, name string))
	// Get returns an object, or nil. It must not be written to.
	Get(kind, namespace, name string) map[string]any
}

// API is where grids and their children live. Objects that it returns are
// pruned as the mirror's are. gridtest has a twin of it in memory, and the
// suite that both pass.
type API interface {
	// Live is an object as it is now, or nil.
	Live(ctx context.Context, kind, namespace, name string) (map[string]any, error)
	// Apply applies an object server-side (KEP-555), by force, and makes one that
	// is not there; Merge changes one by a merge patch (RFC 7386). Both return the
	// object as it is then, and fail with a conflict where they name a
	// metadata.resourceVersion and it has another; Merge fails, too, where it names
	// another metadata.uid.
	Apply(ctx context.Context, obj map[string]any, manager string) (map[string]any, error)
	Merge(ctx context.Context, kind, namespace, name string, patch map[string]any) (map[string]any, error)
	// TakeOver gives one manager the fields that another wrote by updates.
	TakeOver(ctx context.Context, kind, namespace, name, from, to string) error
	// WriteStatus replaces the status of an object, which must have that UID.
	WriteStatus(ctx context.Context, kind, namespace, name, uid string, status any) error
	// Delete deletes an object of a version, "" for any, and in the background
	// what it owns. One that is gone is no error.
	Delete(ctx context.Context, kind, namespace, name, version string) error
}

// Events records what happens to objects. It must not block.
type Events interface {
	// Event is of a type (corev1.EventTypeNormal or Warning), about an object.
	Event(about corev1.ObjectReference, eventType, reason, message string)
}

// meta reads an object's metadata.
func meta(obj map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: obj}
}

func ownerUID(obj map[string]any) string {
	if owner := metav1.GetControllerOf(meta(obj)); owner != nil {
		return string(owner.UID)
	}
	return ""
}

// older reports whether an object is of a version before another. Versions
// that cannot be compared are not.
func older(obj map[string]any, version string) bool {
	order, err := resourceversion.CompareResourceVersion(meta(obj).GetResourceVersion(), version)
	return err == nil && order < 0
}
