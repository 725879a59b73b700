// Package jsontype finds what in a value of JSON does not fit the Go type that
// it is to be read into. Decoders stop at the first, and name neither entries of
// maps nor fields of types that read themselves; here each has its path, and
// what is wanted there. It is pure.
//
//	jsontype.go  fields of types, and what a type reads
//	misfits.go   the walk of a value beside a type
//	text.go      what is told of a misfit
package jsontype

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"
)

// known are the fields of each type that was looked at, once: a map[string]reflect.Type.
var known sync.Map

// Fields are the fields of a struct by the names that they have in JSON, those
// of embedded structs among them. The map is everybody's: it is not to be changed.
func Fields(t reflect.Type) map[string]reflect.Type {
	out, ok := known.Load(t)
	if !ok {
		out, _ = known.LoadOrStore(t, fieldsOf(t))
	}
	return out.(map[string]reflect.Type)
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		switch name, _, _ := strings.Cut(field.Tag.Get("json"), ","); {
		case name == "" && field.Anonymous:
			maps.Copy(out, fieldsOf(field.Type))
		case name != "" && name != "-":
			out[name] = field.Type
		}
	}
	return out
}

// readsItself reports whether a type decides what it takes (json.Unmarshaler).
func readsItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// read has a type read a value, and returns what it has against it.
func read(t reflect.Type, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, reflect.New(t).Interface())
}
