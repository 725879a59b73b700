package objects

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Kind names objects that are listed, mirrored or changed.
type Kind struct {
	Resource schema.GroupVersionResource
	Kind     string
	Selector string // of labels; "" for all
	// Namespace and Name narrow what is listed and watched, so that a right to one object is
	// enough; "" for all.
	Namespace, Name string
}

// among is what is asked for of a kind.
func (k Kind) among(client dynamic.Interface) dynamic.ResourceInterface {
	if k.Namespace == "" { // of kinds without namespaces, too
		return client.Resource(k.Resource)
	}
	return client.Resource(k.Resource).Namespace(k.Namespace)
}

// narrow has a list or a watch tell of those that are chosen.
func (k Kind) narrow(o *metav1.ListOptions) {
	o.LabelSelector = k.Selector
	if k.Name != "" {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, k.Name).String()
	}
}
