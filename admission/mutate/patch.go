package mutate

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Patch changes the object that is to be written: a JSON patch (RFC 6902) once it is
// marshalled. Empty where the write is left as it is.
type Patch []Operation

// Operation is one step of a Patch.
type Operation struct {
	Op    string `json:"op"` // add, replace or remove
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"` // of add and replace, never nil
}

// same reports whether two values are the same to the API server: to it nothing and
// empty are.
func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// sameMeta reports whether the metadata of a write are the stored ones, bookkeeping aside.
func sameMeta(old, next metav1.ObjectMeta) bool { return same(essence(old), essence(next)) }

// essence is metadata without what the API server keeps, and without the endpoint
// controllers' note of when they wrote.
func essence(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.ManagedFields, m.ResourceVersion, m.Generation = nil, "", 0
	m.Annotations = maps.Clone(m.Annotations)
	delete(m.Annotations, corev1.EndpointsLastChangeTriggerTime)
	return m
}

// bookkeeping takes back what is left of a write that changes nothing else.
func bookkeeping(old, next metav1.ObjectMeta) (p Patch) {
	switch {
	case same(old.Annotations, next.Annotations):
	case len(old.Annotations) == 0:
		p = append(p, Operation{Op: "remove", Path: "/metadata/annotations"})
	default:
		p = append(p, Operation{Op: "add", Path: "/metadata/annotations", Value: old.Annotations})
	}
	if len(old.ManagedFields) > 0 && !same(old.ManagedFields, next.ManagedFields) {
		p = append(p, Operation{Op: "add", Path: "/metadata/managedFields", Value: old.ManagedFields})
	}
	return p
}
