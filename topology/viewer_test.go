package topology_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

// The law: what the viewer keeps over a history is what a new viewer sees.
func TestViewerIsIncremental(t *testing.T) {
	readings := []Options{
		{},
		{Reading: Union, Outside: true},
		{Ordinals: OrdinalsAll},
		{Outside: true},
		{Datapath: DatapathAuto},
		{Datapath: DatapathEnvoy},
		{Datapath: DatapathKernel, Reading: Union},
	}
	for seed := range uint64(70) {
		opts, w := readings[seed%7], topologytest.New(seed) // a history of its own for each
		w.SCTP = seed%2 == 0
		viewer := func() *Viewer {
			v := NewViewer("n0", opts)
			if seed%3 > 0 { // else nobody comes near the bounds
				v.Bound(int(seed%3)+2, 7)
				v.BoundRanges(int(seed%5)*5 + 2)
				v.BoundNamed(int(seed%4) + 1)
			}
			return v
		}
		kept := viewer()
		var before *View
		for step := range 120 {
			for range 1 + w.IntN(3) {
				w.Step()
			}
			snap := w.Snapshot()
			got, want := kept.See(snap), viewer().See(snap)
			if !reflect.DeepEqual(got.Sorted(), want.Sorted()) || !reflect.DeepEqual(got.Viewpoint, want.Viewpoint) {
				t.Fatalf("seed %d step %d: the kept view differs from a new one", seed, step)
			}
			checkAgainstTwin(t, snap, got, kept, opts, fmt.Sprintf("seed %d step %d", seed, step))
			if before != nil {
				checkReuse(t, before, got)
			}
			before = got
		}
	}
}

// checkReuse: a Service that Changed does not name kept its pointer.
func checkReuse(t *testing.T, before, now *View) {
	t.Helper()
	changed := slices.Collect(before.Services.Changed(now.Services))
	for key, s := range now.Services.All() {
		if old, had := before.Services.Get(key); had && old == s == slices.Contains(changed, key) {
			t.Fatalf("%s: Changed and the pointers disagree", key)
		}
	}
}

// What rules read of this node is followed: while nobody knows the node, there is
// nothing to follow, and no Service is evaluated again for it.
func TestAnUnknownNodeCostsNothing(t *testing.T) {
	b, key := NewBuilder(), ObjectKey{"default", "web"}
	b.SetService(&Service{Key: key})
	v := NewViewer("unknown", Options{})
	before, _ := v.See(b.Build()).Service(key)
	b.SetNode(&Node{Name: "n1"})
	if after, _ := v.See(b.Build()).Service(key); after != before {
		t.Error("another node came, and a Service that has nothing to do with it was evaluated again")
	}
}
