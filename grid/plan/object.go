package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// Object is a Kubernetes object as unstructured JSON.
type Object = map[string]any

// Ref names an object.
type Ref struct{ Kind, Namespace, Name string }

// String is kind in lower case, namespace and name.
func (r Ref) String() string {
	return strings.ToLower(r.Kind) + " " + topology.ObjectKey{Namespace: r.Namespace, Name: r.Name}.String()
}

func compareRefs(a, b Ref) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// RefOf names an object; one without a namespace is in the default one.
func RefOf(obj Object) Ref {
	r := Ref{Kind: value[string](obj, "kind"), Namespace: value[string](obj, "metadata", "namespace"), Name: value[string](obj, "metadata", "name")}
	if r.Kind != kindNode {
		r.Namespace = cmp.Or(r.Namespace, names.DefaultNamespace)
	}
	return r
}

const kindNode = "Node"

// value is the field at a path, not copied. One that is absent or of another
// type is the zero value: the API server's validation says so better.
func value[T any](obj Object, path ...string) T {
	found, _, _ := unstructured.NestedFieldNoCopy(obj, path...)
	v, _ := found.(T)
	return v
}

// integer is the number at a path, or a default.
func integer(obj Object, otherwise int64, path ...string) int64 {
	switch n := value[any](obj, path...).(type) {
	case int64:
		return n
	case float64: // "2.0"
		return int64(n)
	}
	return otherwise
}

// stringsOf are the entries of an object that are strings. One of another type
// costs no other entry, which unstructured.NestedStringMap would have it.
func stringsOf(obj Object) map[string]string {
	out := make(map[string]string, len(obj))
	for k, v := range obj {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

// ensure returns the object at a path, which it makes if need be.
func ensure(obj Object, path ...string) Object {
	for _, key := range path {
		next, ok := obj[key].(Object)
		if !ok {
			next = Object{}
			obj[key] = next
		}
		obj = next
	}
	return obj
}

// without is an object without the field at a path; it is copied along that alone.
func without(obj Object, path ...string) Object {
	v, has := obj[path[0]]
	if !has {
		return obj
	}
	out := maps.Clone(obj)
	if below, ok := v.(Object); len(path) > 1 && ok {
		out[path[0]] = without(below, path[1:]...)
	} else if len(path) == 1 {
		delete(out, path[0])
	}
	return out
}

// clone copies an object deeply: what is read is never written to.
func clone(obj Object) Object {
	if obj == nil {
		return Object{}
	}
	return runtime.DeepCopyJSON(obj)
}

func anyMap(m map[string]string) Object {
	out := make(Object, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// controllerOf is the owner reference of an object's controller, or nil.
func controllerOf(obj Object) Object {
	for _, o := range value[[]any](obj, "metadata", "ownerReferences") {
		if ref, ok := o.(Object); ok && ref["controller"] == true {
			return ref
		}
	}
	return nil
}

func deleting(obj Object) bool { return value[string](obj, "metadata", "deletionTimestamp") != "" }

// condition is an object's condition of a type.
func condition(obj Object, kind string) (found Object, ok bool) {
	for _, o := range value[[]any](obj, "status", "conditions") {
		if c, is := o.(Object); is && c["type"] == kind {
			found, ok = c, true
		}
	}
	return found, ok
}

// sum is the same for the same content: JSON objects are marshalled sorted.
func sum(parts ...any) string {
	data, err := json.Marshal(parts)
	if err != nil {
		panic(err) // it came from JSON
	}
	return digest(string(data), 16)
}

// digest is the first n characters of a text's SHA-256 in hex.
func digest(text string, n int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:n]
}

// Time is how times stand in annotations.
func Time(t time.Time) string { return t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano) }

// atTime is a time in words that do not change while it is waited for.
func atTime(t time.Time) string { return "at " + t.UTC().Format(time.RFC3339) }

// Cut bounds a text of others: the API server may quote all that it refuses.
func Cut(text string) string {
	const most = 768 // bytes
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return text
}

// Short cuts a list of units for a message.
func Short(list []string) string {
	const named = 3
	text := strings.Join(list[:min(named, len(list))], ", ")
	if more := len(list) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
