package plan

import "maps"

// The helpers below read unstructured JSON; a wrong type reads as absent, for
// the API server's validation says so better.

func object(obj Object, path ...string) Object {
	for _, key := range path {
		next, ok := obj[key].(Object)
		if !ok {
			return nil
		}
		obj = next
	}
	return obj
}

func text(obj Object, path ...string) string {
	s, _ := object(obj, path[:len(path)-1]...)[path[len(path)-1]].(string)
	return s
}

func texts(obj Object, path ...string) map[string]string {
	from := object(obj, path...)
	out := make(map[string]string, len(from))
	for k, v := range from {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

func flag(obj Object, path ...string) bool {
	b, _ := object(obj, path[:len(path)-1]...)[path[len(path)-1]].(bool)
	return b
}

// number reads an integer, or a default.
func number(obj Object, otherwise int64, path ...string) int64 {
	switch n := object(obj, path[:len(path)-1]...)[path[len(path)-1]].(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case float64:
		return int64(n)
	}
	return otherwise
}

// ensure returns the object under a key, which it makes if need be.
func ensure(obj Object, key string) Object {
	if next, ok := obj[key].(Object); ok {
		return next
	}
	next := Object{}
	obj[key] = next
	return next
}

// clone copies JSON deeply: what is read is never written to.
func clone(obj Object) Object { return cloneAny(obj).(Object) }

func cloneAny(v any) any {
	switch v := v.(type) {
	case Object:
		out := make(Object, len(v))
		for k, e := range v {
			out[k] = cloneAny(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = cloneAny(e)
		}
		return out
	}
	return v
}

func anyMap(m map[string]string) Object {
	out := make(Object, len(m))
	for k, v := range maps.All(m) {
		out[k] = v
	}
	return out
}
