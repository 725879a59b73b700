package render

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// What is in use is remembered, and not whatever was ever dialled.
func TestUsageIsBoundedAndAges(t *testing.T) {
	u := newUsage(3)
	if _, fresh := u.add("a", "b", "c"); !fresh {
		t.Error("what was never used is not new")
	}
	if forgotten, fresh := u.add("a"); len(forgotten) > 0 || fresh {
		t.Errorf("used again: forgotten %v, new %v", forgotten, fresh)
	}
	if forgotten, _ := u.add("d", "e"); !slices.Equal(forgotten, []string{"b", "c"}) {
		t.Errorf("forgotten %v, want the oldest", forgotten)
	}
	if got := u.names(); !slices.Equal(got, []string{"a", "d", "e"}) {
		t.Errorf("remembers %v", got)
	}
}

// A pod that dials every frontend once leaves what is in use preloaded, where
// the use of it was noted since, and what is kept stays bounded.
func TestAScanDoesNotDisplaceWhatIsInUse(t *testing.T) {
	w := newUDPWorld(2)
	w.service(named("one"), 1, "", topology.TCP, []uint16{80}, "b-1")
	w.service(named("two"), 2, "", topology.TCP, []uint16{80}, "b-1")
	w.service(named("scanned"), 3, "", topology.TCP, []uint16{80}, "b-1")
	w.next()
	scan := make([]string, 2*maxUsed)
	for i := range scan {
		scan[i] = fmt.Sprintf("10.97.%d.%d:80", i>>8, i&255)
	}
	w.cats.Used(append(scan, "10.96.0.3:80")...)
	w.cats.Used("10.96.0.1:80", "10.96.0.2:80")
	cat, _ := w.next()
	if !cat.Preloaded("10.96.0.1:80") || !cat.Preloaded("10.96.0.2:80") || cat.Preloaded("10.96.0.3:80") {
		t.Error("what was used last is not preloaded")
	}
	if n := len(w.cats.UsedNames()); n != maxUsed {
		t.Errorf("%d names are remembered, want %d", n, maxUsed)
	}
	w.cats.Used(scan...) // forgets everything else
	if cat, _ := w.next(); cat.PreloadedLen() != 0 {
		t.Errorf("%d clusters are preloaded though all use of them is forgotten", cat.PreloadedLen())
	}
}
