package report

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

func malformed(o *nodetest.Objects, name string, bad bool) {
	keys := `["unit"]`
	if bad {
		keys = "unit"
	}
	o.Builder().SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "default", Name: name}, TopologyKeys: &keys})
}

// The index of problems equals a walk over the whole view, whatever came
// before, and a change touches no more than what it changed.
func TestProblemsFollowTheViews(t *testing.T) {
	o, viewer, index := nodetest.NewObjects(), topology.NewViewer("a-1", topology.Options{}), ProblemIndex{}
	cat := &render.Catalog{}
	for i := range 40 {
		malformed(o, fmt.Sprintf("s%02d", i%10), i%3 == 0)
		v := viewer.See(o.Snapshot())
		list, more := index.next(v, cat, nil)
		want := v.AllProblems()
		if len(list)+more != len(want) || more != 0 {
			t.Fatalf("step %d: %d problems, want %d", i, len(list), len(want))
		}
		for j := range want {
			if list[j] != want[j] {
				t.Errorf("step %d: %s, want %s", i, list[j], want[j])
			}
		}
	}
	// Nothing changed: what the index holds is not looked at again.
	index.bad[topology.ObjectKey{Namespace: "default", Name: "s00"}], index.first = []topology.Problem{problem("marker")}, nil
	if list, _ := index.next(viewer.See(o.Snapshot()), cat, nil); list[0] != problem("marker") {
		t.Errorf("a view that is the same was walked: %v", list[0])
	}
}

// UDP of a Service without keys is what no node serves by Envoy, and no mistake: of
// those a cluster is full, and whoever is woken by problems is not woken by them.
func TestUDPWithoutKeysIsANotice(t *testing.T) {
	o, index := nodetest.NewObjects(), ProblemIndex{}
	key := topology.ObjectKey{Namespace: "default", Name: "plain"}
	o.Builder().SetService(&topology.Service{Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.9")}, Ports: []topology.ServicePort{{Protocol: topology.UDP, Port: 9999}}})
	o.Builder().SetSlice(&topology.Slice{
		Key: key, Service: key.Name, Ports: []topology.SlicePort{{Protocol: topology.UDP, Port: 9999}},
		Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.1.0.1"), Node: "a-1", Ready: true, Serving: true}},
	})
	view, r := topology.See(o.Snapshot(), "a-1", topology.Options{}), Report{}
	cat, _ := render.NewCataloger(render.Default(), 500).Next(view, false)
	if index.Fill(&r, view, cat, nil); len(r.Problems)+r.More != 0 || r.Notices != 1 {
		t.Errorf("problems %v, %d notices; want none and one", r.Problems, r.Notices)
	}
}

// What is lost comes before all else, whosoever it is, and each in the order of the lists.
func TestWhatIsLostIsListedFirst(t *testing.T) {
	lost := func(text string) topology.Problem { return topology.Problem{Text: text, Loss: topology.LostAll} }
	index := ProblemIndex{bad: map[topology.ObjectKey][]topology.Problem{{Name: "b"}: {lost("b1"), {Text: "b2"}}, {Name: "a"}: {{Text: "a1"}, {Text: "a2", Loss: topology.LostNewer}}}}
	view := &topology.View{Problems: []topology.Problem{{Text: "v"}}}
	index.view = view
	for range 2 {
		list, more := index.next(view, &render.Catalog{}, []topology.Problem{lost("o")})
		text := ""
		for _, p := range list {
			text += p.Text + " "
		}
		if text != "o a2 b1 v a1 b2 " || more != 0 {
			t.Errorf("%s, and %d more", text, more)
		}
	}
}

func TestListedProblemsAreBounded(t *testing.T) {
	o, index := nodetest.NewObjects(), ProblemIndex{}
	for i := range maxListed + 3 {
		malformed(o, fmt.Sprintf("s%03d", i), true)
	}
	list, more := index.next(topology.See(o.Snapshot(), "a-1", topology.Options{}), &render.Catalog{}, nil)
	if len(list) != maxListed || more != 3 {
		t.Errorf("%d listed and %d more, want %d and 3", len(list), more, maxListed)
	}
}

// crowded is an index of Services of which so many have a problem, and what tells of a change of another one that has none.
func crowded(t testing.TB, bad int) (next func()) {
	t.Helper()
	o, viewer, index, changes := nodetest.NewObjects(), topology.NewViewer("a-1", topology.Options{}), &ProblemIndex{}, 0
	for i := range bad {
		malformed(o, fmt.Sprint("s", i), true)
	}
	var views []*topology.View
	for i := range 2 {
		o.Builder().SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "default", Name: "another"}, Created: int64(i)})
		views = append(views, viewer.See(o.Snapshot()))
	}
	return func() {
		var r Report
		changes++
		if index.Fill(&r, views[changes%2], &render.Catalog{}, nil); len(r.Problems)+r.More != bad {
			t.Fatalf("%d problems and %d more, want %d", len(r.Problems), r.More, bad)
		}
	}
}

// A change of one costs as much however many others are wrong; with ten thousand it once had all of them sorted.
func TestWhoIsWrongCostsNobodyElse(t *testing.T) {
	bytes := map[int]uint64{}
	for _, bad := range []int{100, 10_000} {
		next := crowded(t, bad)
		next()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10 {
			next()
		}
		runtime.ReadMemStats(&after)
		bytes[bad] = after.TotalAlloc - before.TotalAlloc
	}
	if bytes[10_000] > 5*bytes[100] {
		t.Errorf("bytes for ten changes, by how many are wrong: %v", bytes)
	}
}

func BenchmarkFill(b *testing.B) {
	for _, bad := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("bad=%d", bad), func(b *testing.B) {
			next := crowded(b, bad)
			next()
			for b.Loop() {
				next()
			}
		})
	}
}
