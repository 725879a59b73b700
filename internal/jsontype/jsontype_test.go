package jsontype

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Name string `json:"name,omitempty"`
}

type outer struct {
	inner  `json:",inline"`
	Count  int32 `json:"count"`
	Hidden int   `json:"-"`
	None   int
}

func TestFields(t *testing.T) {
	got := slices.Sorted(maps.Keys(Fields(reflect.TypeFor[outer]())))
	if want := "count name"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestTypesThatReadThemselves(t *testing.T) {
	at, plain := reflect.TypeFor[time.Time](), reflect.TypeFor[int32]()
	if !readsItself(at) || readsItself(plain) {
		t.Error("a time reads itself, and a number does not")
	}
	if err := read(at, "2026-01-31T12:00:00Z"); err != nil {
		t.Error(err)
	}
	if read(at, "noon") == nil || read(at, make(chan int)) == nil {
		t.Error("a time was read from what is none")
	}
}
