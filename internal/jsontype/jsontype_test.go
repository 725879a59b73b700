package jsontype

import (
	"maps"
	"math"
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
	if !ReadsItself(at) || ReadsItself(plain) {
		t.Error("a time reads itself, and a number does not")
	}
	if err := Read(at, "2026-01-31T12:00:00Z"); err != nil {
		t.Error(err)
	}
	if Read(at, "noon") == nil || Read(at, make(chan int)) == nil {
		t.Error("a time was read from what is none")
	}
}

func TestWhole(t *testing.T) {
	for _, tc := range []struct {
		v    any
		n    int64
		want bool
	}{{int64(7), 7, true}, {2.0, 2, true}, {2.5, 0, false}, {math.Exp2(53), 0, false}, {"7", 0, false}, {nil, 0, false}} {
		if n, ok := Whole(tc.v); ok != tc.want || ok && n != tc.n {
			t.Errorf("%v: got %d, %v", tc.v, n, ok)
		}
	}
}
