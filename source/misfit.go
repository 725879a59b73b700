package source

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gridmesh/gridmesh/internal/jsontype"
)

// misfit says which field of a document a type cannot hold, and what it wants:
// a decoder that failed names neither entries of maps nor fields of types that
// read themselves. Where nothing is found it is the decoder's word.
func misfit[T any](raw []byte, err error) (field, text string) {
	var v any
	if utiljson.Unmarshal(raw, &v) != nil {
		return "", err.Error()
	}
	at, holds, wanted := unfit("", v, reflect.TypeFor[T]())
	if wanted == "" {
		return "", err.Error()
	}
	return at, "it holds a JSON " + jsonKind(holds) + ", where " + wanted
}

// unfit finds the first value, by the order of names, that does not fit into its
// type; nothing, which is null, fits everywhere.
func unfit(path string, v any, t reflect.Type) (at string, holds any, wanted string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case v == nil:
		return "", nil, ""
	case jsontype.ReadsItself(t):
		return path, v, special(v, t)
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return within(path, v, t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		list, ok := v.([]any)
		if !ok {
			return path, v, "a list is wanted; begin it with -"
		}
		for i, item := range list {
			if at, holds, wanted = unfit(fmt.Sprintf("%s[%d]", path, i), item, t.Elem()); wanted != "" {
				return at, holds, wanted
			}
		}
		return "", nil, ""
	}
	return path, v, scalar(path, v, t)
}

// within looks through the fields of a struct, or the entries of a map.
func within(path string, v any, t reflect.Type) (at string, holds any, wanted string) {
	obj, ok := v.(map[string]any)
	if !ok {
		return path, v, "an object is wanted"
	}
	var known map[string]reflect.Type
	if t.Kind() == reflect.Struct {
		known = jsontype.Fields(t)
	}
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		below, of := strings.TrimPrefix(path+"."+name, "."), known[name]
		if t.Kind() == reflect.Map {
			below, of = path+"["+name+"]", t.Elem()
		}
		if of == nil { // does not exist, and is told elsewhere
			continue
		}
		if at, holds, wanted = unfit(below, obj[name], of); wanted != "" {
			return at, holds, wanted
		}
	}
	return "", nil, ""
}

// special is what a type that reads itself wants; "" where it takes v.
func special(v any, t reflect.Type) string {
	err := jsontype.Read(t, v)
	if err == nil {
		return ""
	}
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return "a quantity is wanted, as 100m or 2Gi"
	case reflect.TypeFor[intstr.IntOrString]():
		return "a number or a name is wanted, as 8080 or http"
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "a time is wanted, as 2026-01-31T12:00:00Z"
	}
	return fmt.Sprintf("a %s is wanted: %v", t.Name(), err)
}

// scalar is what a field of a plain type wants; "" where it takes v.
func scalar(path string, v any, t reflect.Type) string {
	text, isText := v.(string)
	switch kind := t.Kind(); {
	case kind == reflect.String && !isText:
		return quoted(path, v)
	case kind == reflect.Bool:
		if _, ok := v.(bool); !ok {
			return "true or false is wanted"
		}
	case kind >= reflect.Int && kind <= reflect.Int64 && !isInt(v, t):
		if _, err := strconv.ParseInt(text, 10, 64); isText && err == nil {
			return "a number is wanted: write " + text + ", without quotes"
		}
		return fmt.Sprintf("a number is wanted, without quotes and fractions, of %d bits at most", t.Bits())
	}
	return ""
}

// quoted says how a string is written; of lists only an annotation's is one.
func quoted(path string, v any) string {
	const most = 40
	text, err := json.Marshal(v)
	switch v.(type) {
	case bool, int64, float64:
		return fmt.Sprintf(`a string is wanted; put it in quotes, as "%s"`, text)
	case []any:
		if strings.HasPrefix(path, "metadata.annotations[") && err == nil && len(text) <= most {
			return fmt.Sprintf("a string is wanted; put it in quotes, as '%s'", text)
		}
	}
	return "a string is wanted"
}

// isInt reports whether a number fits into a type.
func isInt(v any, t reflect.Type) bool {
	n, whole := jsontype.Whole(v)
	return whole && !reflect.Zero(t).OverflowInt(n)
}

func jsonKind(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}
