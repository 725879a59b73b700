package topology

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
)

// variant is a value of a type, and what is in it.
type variant struct {
	what  string
	value reflect.Value
}

// variants are values of a type that are pairwise unequal, the zero first: each
// field of a struct, also in lists and behind pointers, makes one.
func variants(t *testing.T, kind reflect.Type) []variant {
	t.Helper()
	list := []variant{{"nothing", reflect.Zero(kind)}}
	add := func(what string, fill func(v reflect.Value)) {
		v := reflect.New(kind).Elem()
		fill(v)
		list = append(list, variant{what, v})
	}
	switch kind {
	case reflect.TypeFor[netip.Addr]():
		return append(list, variant{"address", reflect.ValueOf(netip.MustParseAddr("10.1.0.1"))})
	case reflect.TypeFor[netip.Prefix]():
		return append(list, variant{"range", reflect.ValueOf(netip.MustParsePrefix("10.1.0.0/16"))})
	}
	switch kind.Kind() {
	case reflect.Bool:
		add("true", func(v reflect.Value) { v.SetBool(true) })
	case reflect.Int, reflect.Int64:
		add("1", func(v reflect.Value) { v.SetInt(1) })
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		add("1", func(v reflect.Value) { v.SetUint(1) })
	case reflect.String:
		add("x", func(v reflect.Value) { v.SetString("x") })
	case reflect.Pointer:
		for _, in := range variants(t, kind.Elem()) {
			add("&"+in.what, func(v reflect.Value) { v.Set(reflect.New(kind.Elem())); v.Elem().Set(in.value) })
		}
	case reflect.Slice:
		for _, in := range variants(t, kind.Elem()) {
			add("["+in.what+"]", func(v reflect.Value) { v.Set(reflect.Append(v, in.value)) })
		}
	case reflect.Map:
		for _, in := range variants(t, kind.Elem()) {
			add("{x: "+in.what+"}", func(v reflect.Value) {
				v.Set(reflect.MakeMap(kind))
				v.SetMapIndex(reflect.ValueOf("x"), in.value)
			})
		}
	case reflect.Struct:
		for i := range kind.NumField() {
			for _, in := range variants(t, kind.Field(i).Type)[1:] {
				add(kind.Field(i).Name+" "+in.what, func(v reflect.Value) { v.Field(i).Set(in.value) })
			}
		}
	default:
		t.Fatalf("nobody knows two unequal values of %s; say here what they are", kind)
	}
	return list
}

// What Equal forgets of an object is no change: the old one stays in force.
func TestEachFieldMakesAnotherObject(t *testing.T) {
	checkEqual(t, 30, (*Service).Equal)
	checkEqual(t, 20, (*Slice).Equal)
	checkEqual(t, 3, (*Node).Equal)
}

// checkEqual compares all variants of an object, of which there are as many at least.
func checkEqual[T any](t *testing.T, least int, equal func(a, b *T) bool) {
	t.Helper()
	list := variants(t, reflect.TypeFor[T]())
	if len(list) < least {
		t.Errorf("%s has only %d variants", reflect.TypeFor[T](), len(list))
	}
	object := func(v variant) *T {
		one := v.value.Interface().(T)
		return &one
	}
	for i, a := range list {
		for j, b := range list {
			if got := equal(object(a), object(b)); got != (i == j) {
				t.Errorf("%s: equal %v of one with %s and one with %s; see equal.go", fmt.Sprintf("%T", *new(T)), got, a.what, b.what)
			}
		}
	}
}
