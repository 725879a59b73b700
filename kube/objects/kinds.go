package objects

import "k8s.io/apimachinery/pkg/runtime/schema"

// Kind names objects that are listed, mirrored or changed.
type Kind struct {
	Resource schema.GroupVersionResource
	Kind     string
	Selector string // of labels; "" for all
}
