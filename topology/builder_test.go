package topology_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// tiny is the i-th of many slices of one Service, with one endpoint.
func tiny(i, round int) *Slice {
	return &Slice{
		Key: ObjectKey{Namespace: "tenant", Name: fmt.Sprintf("web-%06d", i)}, Service: "web", Ports: []SlicePort{{Name: "a", Protocol: TCP, Port: 8080}},
		Endpoints: []Endpoint{{Addr: netip.AddrFrom4([4]byte{10, byte(round), byte(i >> 8), byte(i)}), Node: "n0", Ready: true, Serving: true}},
	}
}

// allocated is how many bytes f takes, also those that are free again.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A batch costs its Service's slices once, and not each slice of it all of them; what
// did not change costs nothing.
func TestManySlicesOfOneServiceCostThemselves(t *testing.T) {
	const many, most = 10_000, 1024 // most bytes a slice; all the others are 80 kB
	b := NewBuilder()
	b.SetService(&Service{Key: ObjectKey{Namespace: "tenant", Name: "web"}})
	rounds := [2][]*Slice{}
	for i := range many {
		rounds[0], rounds[1] = append(rounds[0], tiny(i, 0)), append(rounds[1], tiny(i, 1))
	}
	set := func(want bool, list []*Slice) func() {
		return func() {
			for _, s := range list {
				if b.SetSlice(s) != want {
					t.Errorf("%s: changed is not %t", s.Key, want)
				}
			}
		}
	}
	for _, c := range []struct {
		what string
		most uint64
		run  func()
	}{
		{"new", most * many, set(true, rounds[0])},
		{"the same", 8 * many, set(false, rounds[0])}, // less than a byte each, and room for what else runs
		{"built, the same", 8 * many, func() { b.Build(); set(false, rounds[0])() }},
		{"built, all of them other", most * many, func() { b.Build(); set(true, rounds[1])() }},
		{"built, all of them gone", most * many, func() {
			b.Build()
			for _, s := range rounds[0] {
				b.DeleteSlice(s.Key)
			}
		}},
	} {
		if took := allocated(c.run); took > c.most {
			t.Errorf("%s: %d bytes, want %d at most", c.what, took, c.most)
		}
	}
}

// What was built stays, whatever the builder is told afterwards, of its Service too.
func TestABatchLeavesWhatWasBuilt(t *testing.T) {
	b := NewBuilder()
	service := func(port uint16) *Service {
		return &Service{Key: ObjectKey{Namespace: "tenant", Name: "web"}, Ports: []ServicePort{{Name: "a", Protocol: TCP, Port: port}}}
	}
	b.SetService(service(80))
	for i := range 5 {
		b.SetSlice(tiny(2*i, 0))
	}
	first := b.Build()
	b.SetSlice(tiny(4, 1))
	b.SetService(service(81))
	b.SetSlice(tiny(3, 1))
	b.DeleteSlice(tiny(0, 0).Key)
	second := b.Build()
	b.DeleteService(service(80).Key)
	b.DeleteSlice(tiny(8, 0).Key)
	b.SetSlice(tiny(4, 2))
	third := b.Build()
	for i := range 5 {
		b.DeleteSlice(tiny(2*i, 0).Key)
	}
	b.DeleteSlice(tiny(3, 0).Key)
	b.SetSlice(tiny(9, 3))
	for _, c := range []struct {
		built *Snapshot
		want  string
	}{
		{first, "0/0 2/0 4/0 6/0 8/0 "}, {second, "2/0 3/1 4/1 6/0 8/0 "}, {third, "2/0 3/1 4/2 6/0 "}, {b.Build(), "9/3 "},
	} {
		e, _ := c.built.Services.Get(service(80).Key)
		got := ""
		for _, s := range e.Slices {
			as4 := s.Endpoints[0].Addr.As4()
			got += fmt.Sprintf("%d/%d ", as4[3], as4[1])
		}
		if got != c.want {
			t.Errorf("slices %q, want %q", got, c.want)
		}
	}
}
