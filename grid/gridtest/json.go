package gridtest

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// pruned is an object as a mirror has it.
func pruned(u *unstructured.Unstructured) plan.Object {
	obj := u.DeepCopy().Object
	plan.Prune(obj)
	return obj
}

// roundTrip makes JSON of what a caller gave.
func roundTrip(obj plan.Object) plan.Object {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	var u map[string]any
	if err := utiljson.Unmarshal(data, &u); err != nil {
		panic(err)
	}
	return u
}

// mergePatch is RFC 7386.
func mergePatch(into, patch plan.Object) plan.Object {
	for key, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(into, key)
		case plan.Object:
			below, _ := into[key].(plan.Object)
			if below == nil {
				below = plan.Object{}
			}
			into[key] = mergePatch(below, v)
		default:
			into[key] = v
		}
	}
	return into
}

// DropZeroes takes away what the API server does not store: fields that are
// empty, zero or false.
func DropZeroes(obj plan.Object) {
	for key, v := range obj {
		switch v := v.(type) {
		case plan.Object:
			DropZeroes(v)
		case []any:
			for _, item := range v {
				if o, ok := item.(plan.Object); ok {
					DropZeroes(o)
				}
			}
		case string:
			if v == "" {
				delete(obj, key)
			}
		case bool:
			if !v {
				delete(obj, key)
			}
		case int64:
			if v == 0 {
				delete(obj, key)
			}
		}
	}
}
