// Package jsontype says how values of JSON fit into Go types, for whoever walks
// one beside the other to name what does not fit.
package jsontype

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"strings"
)

// Fields are the fields of a struct by the names that they have in JSON, those
// of embedded structs among them.
func Fields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		switch name, _, _ := strings.Cut(field.Tag.Get("json"), ","); {
		case name == "" && field.Anonymous:
			maps.Copy(out, Fields(field.Type))
		case name != "" && name != "-":
			out[name] = field.Type
		}
	}
	return out
}

// ReadsItself reports whether a type decides what it takes (json.Unmarshaler).
func ReadsItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// Read has a type read a value, and returns what it has against it.
func Read(t reflect.Type, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, reflect.New(t).Interface())
}

// Whole is the value of an integer, as which 2.0 is written too.
func Whole(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	}
	return 0, false
}
