package jsontype

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Misfit is a value that does not fit where it stands.
type Misfit struct {
	Path  string // "spec.ports[0].port", "metadata.labels[app]"; "" for the whole
	Value any
	// Type is what is wanted there; of a field that does not exist, the struct
	// that has no such field.
	Type    reflect.Type
	Unknown bool
	Name    string // of a field that does not exist
	// Written is how the value stands in its document, where the caller knows: a reader
	// of YAML makes 15 of 0017, and false of no.
	Written string

	err error // what a type has against it
}

// Misfits walks a value, as json.Unmarshal makes it of an any, beside the type
// that it is to be read into, by the order of names. Nothing, which is null,
// fits everywhere. Where the type is one of instead, the value is to be read
// into another.
func Misfits(v any, t reflect.Type, instead map[reflect.Type]reflect.Type) iter.Seq[Misfit] {
	return func(yield func(Misfit) bool) {
		w := walk{instead: instead, yield: yield}
		w.value("", v, t)
	}
}

// walk is under way; each of its methods returns whether to go on.
type walk struct {
	instead map[reflect.Type]reflect.Type
	yield   func(Misfit) bool
}

func (w *walk) value(path string, v any, t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if other, ok := w.instead[t]; ok {
		t = other
	}
	switch kind := t.Kind(); {
	case v == nil:
		return true
	case readsItself(t):
		return w.whole(path, v, t)
	case kind == reflect.Struct, kind == reflect.Map:
		if obj, ok := v.(map[string]any); ok {
			return w.within(path, obj, t)
		}
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8: // bytes are a string
		if list, ok := v.([]any); ok {
			return w.items(path, list, t)
		}
	default:
		return w.whole(path, v, t)
	}
	return w.yield(Misfit{Path: path, Value: v, Type: t})
}

// within looks through the fields of a struct, or the entries of a map.
func (w *walk) within(path string, obj map[string]any, t reflect.Type) bool {
	isMap := t.Kind() == reflect.Map
	var known map[string]reflect.Type
	if !isMap {
		known = Fields(t)
	}
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		var ok bool
		if isMap {
			ok = w.value(path+"["+name+"]", obj[name], t.Elem())
		} else if at := strings.TrimPrefix(path+"."+name, "."); known[name] != nil {
			ok = w.value(at, obj[name], known[name])
		} else {
			ok = w.yield(Misfit{Path: at, Value: obj[name], Type: t, Unknown: true, Name: name})
		}
		if !ok {
			return false
		}
	}
	return true
}

func (w *walk) items(path string, list []any, t reflect.Type) bool {
	for i, item := range list {
		if !w.value(fmt.Sprintf("%s[%d]", path, i), item, t.Elem()) {
			return false
		}
	}
	return true
}

// whole is of a value that the decoder itself is asked about, unless there is
// no doubt.
func (w *walk) whole(path string, v any, t reflect.Type) bool {
	plain := !readsItself(t)
	switch v := v.(type) {
	case string:
		plain = plain && t.Kind() == reflect.String
	case bool:
		plain = plain && t.Kind() == reflect.Bool
	case int64:
		plain = plain && isInt(t) && !reflect.Zero(t).OverflowInt(v)
	default:
		plain = false
	}
	if plain {
		return true
	}
	if err := read(t, v); err != nil {
		return w.yield(Misfit{Path: path, Value: v, Type: t, err: err})
	}
	return true
}

func isInt(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64 }
