package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// fleet sets so many near Services of a namespace, from 10.96.X.0 on, on a node.
func (w *udpWorld) fleet(namespace string, x byte, n int, node string) (names []string) {
	for i := range n {
		key := topology.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("s-%02d", i)}
		w.bigOn(node, `["unit","*"]`, key, x, byte(i), 1, 1)
		names = append(names, fmt.Sprintf("10.96.%d.%d:1", x, i))
	}
	return names
}

// missing are those of names that Envoy does not hold beforehand.
func missing(c *Catalog, names []string) int {
	return len(slices.DeleteFunc(slices.Clone(names), c.Preloaded))
}

// What was near, and nobody has used since, gives way to what is near and to what is used,
// in whichever namespace, and however many places of it that has.
func TestWhatNobodyUsesTakesNobodysPlace(t *testing.T) {
	for _, uses := range []int{25, 30} { // the latter is more than half of all
		w := newUDPWorld(50)
		fell := w.fleet("a", 1, 20, "a-1")
		used := w.fleet("b", 2, uses, "b-1")
		w.cats.Used(nil, used)
		if cat, _ := w.next(); missing(cat, fell)+missing(cat, used) > 0 {
			t.Fatal("there is no room for what is near and used")
		}
		w.fleet("a", 1, 20, "b-1")
		near := w.fleet("c", 3, 10, "a-1")
		cat, _ := w.next()
		if n := missing(cat, used) + missing(cat, near); n > 0 || missing(cat, fell) != 20-(50-10-uses) {
			t.Errorf("%d of %d that are near or used have no place, and of 20 that nobody uses %d", n, 10+uses, missing(cat, fell))
		}
	}
}

// What was near and has no place is nothing that anybody should see to; what is near is.
func TestWhatFellIsNoProblem(t *testing.T) {
	w := newUDPWorld(50)
	w.fleet("a", 1, 30, "a-1")
	w.next()
	w.fleet("a", 1, 30, "b-1")
	w.fleet("b", 2, 30, "a-1")
	if cat, _ := w.next(); len(cat.Problems) > 0 || cat.PreloadedLen() != 50 {
		t.Errorf("%d are preloaded, with %v", cat.PreloadedLen(), cat.Problems)
	}
	w.fleet("b", 2, 53, "a-1")
	if cat, _ := w.next(); len(cat.Problems) != 1 || !strings.HasPrefix(cat.Problems[0].Text, "3 clusters near this node") {
		t.Errorf("with 53 that are near: %v", cat.Problems)
	}
}

// What fell and is deleted is forgotten, also where nobody says what is used: who has its
// address next was never near.
func TestWhatFellAndIsDeletedIsForgotten(t *testing.T) {
	w := newUDPWorld(500)
	names := w.fleet("a", 1, 3, "a-1")
	w.next()
	w.fleet("a", 1, 3, "b-1")
	w.next()
	w.DeleteService(topology.ObjectKey{Namespace: "a", Name: "s-00"})
	w.bigOn("b-1", `["unit","*"]`, topology.ObjectKey{Namespace: "a", Name: "s-01"}, 1, 9, 1, 1) // another address
	if w.next(); !slices.Equal(w.cats.Fallen(), names[2:]) {
		t.Errorf("fallen are %v, want %v", w.cats.Fallen(), names[2:])
	}
	w.bigOn("b-1", `["unit","*"]`, topology.ObjectKey{Namespace: "other", Name: "new"}, 1, 0, 1, 1)
	if cat, _ := w.next(); cat.Preloaded(names[0]) || !cat.Preloaded(names[2]) {
		t.Errorf("preloaded is %v", cat.Wildcard(ClusterType))
	}
}
