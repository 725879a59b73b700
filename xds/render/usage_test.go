package render

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// usedWorld has Services 1 to n that are far away and without keys, so that
// none is preloaded but for its use.
func usedWorld(preload int, n byte) *udpWorld {
	w := newUDPWorld(preload)
	for i := range n {
		w.service(named(fmt.Sprint("far-", i+1)), i+1, "", topology.TCP, []uint16{80}, "b-1")
	}
	return w
}

func far(n byte) string { return fmt.Sprintf("10.96.0.%d:80", n) }

// What is used is preloaded for as long as it is said to be.
func TestUsedIsPreloaded(t *testing.T) {
	w := usedWorld(500, 3)
	w.next()
	for _, tc := range []struct {
		names []string
		anew  bool
		want  int
	}{
		{[]string{far(1), far(2), "10.96.9.9:80"}, true, 2}, // the last is no Service
		{[]string{far(2), far(1), "10.96.9.9:80"}, false, 2},
		{[]string{far(2)}, true, 1},
		{nil, true, 0},
	} {
		if anew := w.cats.Used(nil, tc.names); anew != tc.anew {
			t.Errorf("%v: another catalog: %v", tc.names, anew)
		}
		cat, changed := w.next()
		for _, name := range tc.names[:tc.want] {
			if !cat.Preloaded(name) {
				t.Errorf("%v: %s is not preloaded", tc.names, name)
			}
		}
		if n := cat.PreloadedLen(); n != tc.want || tc.anew != (len(changed[ClusterType]) > 0) {
			t.Errorf("%v: %d are preloaded, changed %v", tc.names, n, changed)
		}
	}
}

// Where there is room for some only, they are those that were used last.
func TestTheLatestUseHasRoom(t *testing.T) {
	w := usedWorld(2, 3)
	w.next()
	for _, names := range [][]string{{far(1), far(2), far(3)}, {far(2), far(3), far(1)}} {
		if !w.cats.Used(nil, names) {
			t.Errorf("%v: nothing to choose anew", names)
		}
		if cat, _ := w.next(); cat.Preloaded(names[0]) || !cat.Preloaded(names[1]) || !cat.Preloaded(names[2]) {
			t.Errorf("%v: preloaded is %v", names, cat.Wildcard(ClusterType))
		}
	}
}

// The law: what is preloaded after a history of uses is what one who is told
// the last of them alone preloads.
func TestUsedIsIncremental(t *testing.T) {
	for seed := range uint64(50) {
		const services, room = 8, 3
		w := usedWorld(room, services)
		w.next()
		dice := rand.New(rand.NewPCG(seed, 0))
		for step := range 20 {
			var names []string
			for _, i := range dice.Perm(services)[:dice.IntN(services+1)] {
				names = append(names, far(byte(i+1)))
			}
			idle := dice.IntN(len(names) + 1)
			w.cats.Used(names[:idle], names[idle:])
			got, _ := w.next()
			fresh := NewCataloger(Default(), room)
			fresh.Used(names[:idle], names[idle:])
			want, _ := fresh.Next(w.viewer.See(w.Build()), false)
			if g, want := got.Wildcard(ClusterType), want.Wildcard(ClusterType); !reflect.DeepEqual(g, want) || !slices.IsSorted(g) {
				t.Fatalf("seed %d step %d: used %v, preloaded %v, want %v", seed, step, names, g, want)
			}
		}
	}
}

// What Envoy holds because it was near stays when the unit's last endpoint goes,
// until somebody says what is used: it is told what came to be so. Who never was near gains
// nothing, nor has a Service that is gone.
func TestWhatWasNearIsHeld(t *testing.T) {
	w := usedWorld(500, 1)
	set := func(n int, node string) {
		w.service(named(fmt.Sprint("near-", n)), byte(100+n), `["unit","*"]`, topology.TCP, []uint16{80}, node)
	}
	for n := range 3 {
		set(n, "a-1")
	}
	w.next()
	for n := range 3 {
		set(n, "b-1")
	}
	holds := func(what string, want ...string) {
		t.Helper()
		if cat, _ := w.next(); !slices.Equal(cat.Wildcard(ClusterType), want) {
			t.Errorf("%s: preloaded is %v, want %v", what, cat.Wildcard(ClusterType), want)
		}
	}
	holds("their endpoints are in another unit", far(100), far(101), far(102))
	set(0, "b-2")
	holds("another change", far(100), far(101), far(102))
	if got := w.cats.Fallen(); !slices.Equal(got, []string{far(100), far(101), far(102)}) {
		t.Errorf("fallen are %v", got)
	}
	w.DeleteService(named("near-2"))
	holds("one is deleted", far(100), far(101))
	w.cats.Used([]string{far(100), far(102)}, nil)
	holds("one of them is held", far(100))
	if got := w.cats.Fallen(); len(got) > 0 {
		t.Errorf("fallen are %v after it was said what is used", got)
	}
	set(1, "a-1")
	holds("near again", far(100), far(101))
	w.cats.Used(nil, nil)
	holds("none is used", far(101))
}

// What falls has no more room than there is, and gives way to what is near.
func TestWhatFellGivesWay(t *testing.T) {
	w := newUDPWorld(2)
	for n := range byte(3) {
		w.service(named(fmt.Sprint("s-", n)), 1+n, `["unit","*"]`, topology.TCP, []uint16{80}, "a-1")
	}
	w.next() // two of three
	for n := range byte(3) {
		w.service(named(fmt.Sprint("s-", n)), 1+n, `["unit","*"]`, topology.TCP, []uint16{80}, "b-1")
	}
	if cat, _ := w.next(); !slices.Equal(cat.Wildcard(ClusterType), []string{far(1), far(2)}) {
		t.Errorf("preloaded is %v: one that Envoy did not hold gained, or one that it held went", cat.Wildcard(ClusterType))
	}
	w.service(named("t-1"), 9, `["unit","*"]`, topology.TCP, []uint16{80}, "a-1")
	if cat, _ := w.next(); cat.PreloadedLen() != 2 || !cat.Preloaded(far(9)) {
		t.Errorf("preloaded is %v, want what is near among them", cat.Wildcard(ClusterType))
	}
}
