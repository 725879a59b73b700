package topology_test

import (
	"maps"
	"slices"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

// Whoever applies what Changed yields, from nothing on, has the whole.
func TestChanged(t *testing.T) {
	w := topologytest.New(7)
	viewer := NewViewer("n0", Options{})
	var view *View
	var snap *Snapshot
	services, entries := map[ObjectKey]*ServiceView{}, map[ObjectKey]*Entry{}
	for step := range 300 {
		w.Step()
		nextSnap := w.Builder.Build()
		next := viewer.See(nextSnap)
		for key := range next.Changed(view) {
			delete(services, key)
			if sv, ok := next.Service(key); ok {
				services[key] = sv
			}
		}
		for key := range nextSnap.Changed(snap) {
			delete(entries, key)
			if e, ok := nextSnap.Services.Get(key); ok {
				entries[key] = e
			}
		}
		view, snap = next, nextSnap
		if !maps.Equal(services, maps.Collect(view.Services.All())) || !maps.Equal(entries, maps.Collect(snap.Services.All())) {
			t.Fatalf("step %d: what changed does not add up", step)
		}
	}
	if n := len(slices.Collect(view.Changed(view))); n > 0 {
		t.Errorf("a view differs from itself in %d Services", n)
	}
	if n := len(slices.Collect(view.Changed(nil))); n != view.Services.Len() {
		t.Errorf("from nothing, %d of %d Services", n, view.Services.Len())
	}
	if _, ok := (*View)(nil).Service(ObjectKey{}); ok {
		t.Error("no view has a Service")
	}
}
