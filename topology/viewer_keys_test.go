package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// A key that nobody on this node's side has concerns the Service that names it,
// and no other: who writes annotations has not all Services evaluated again.
func TestAKeyOfOthersConcernsItsServiceAlone(t *testing.T) {
	b := NewBuilder()
	b.SetNode(&Node{Name: "n0", Labels: map[string]string{"site": "a"}})
	b.SetNode(&Node{Name: "n1", Labels: map[string]string{"site": "a", "theirs": "x"}})
	set := func(name, keys string) {
		key := ObjectKey{Namespace: "default", Name: name}
		s := &Service{Key: key, Ports: []ServicePort{{Name: "a", Protocol: TCP, Port: 80}}}
		if keys != "" {
			s.TopologyKeys = &keys
		}
		b.SetService(s)
		b.SetSlice(&Slice{Key: key, Service: name, Endpoints: []Endpoint{{Node: "n1", Ready: true, Serving: true}}})
	}
	set("open", "")
	set("other", `["site"]`)
	viewer := NewViewer("n0", Options{})
	last := viewer.See(b.Build())
	for _, step := range []struct {
		keys string
		want int // Services that are evaluated again
	}{
		{`["nobody/has"]`, 1}, {`["nobody/had"]`, 1}, {`["theirs"]`, 1}, {`["theirs", "kubernetes.io/hostname"]`, 1}, {"", 1},
	} {
		set("tenant", step.keys)
		next := viewer.See(b.Build())
		if changed := slices.Collect(next.Changed(last)); len(changed) != step.want {
			t.Errorf("%s: %v were evaluated again", step.keys, changed)
		}
		last = next
	}
}

// What it costs that one of a tenant's Services names other keys, which no node
// has, at 1000 Services of others and 1000 of the tenant with 16 keys each.
func BenchmarkKeysOfOthers(b *testing.B) {
	build := NewBuilder()
	for _, node := range []string{"n0", "n1"} {
		build.SetNode(&Node{Name: node, Labels: map[string]string{"unit": "a"}})
	}
	ports := []ServicePort{{Name: "p", Protocol: TCP, Port: 80}}
	for i := range 1000 {
		key := ObjectKey{"team", fmt.Sprint("s", i)}
		build.SetService(&Service{Key: key, Ports: ports, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}})
		slice := &Slice{Key: key, Service: key.Name, Ports: []SlicePort{{Name: "p", Protocol: TCP, Port: 8080}}}
		for e := range byte(10) {
			slice.Endpoints = append(slice.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), e}), Node: "n1", Ready: true, Serving: true})
		}
		build.SetSlice(slice)
	}
	annotate := func(i, version int) {
		keys := fmt.Sprintf(`["tenant.example/v%d"`, version)
		for k := range 15 {
			keys += fmt.Sprintf(`,"tenant.example/key-%d-%d"`, i, k)
		}
		keys += "]"
		build.SetService(&Service{Key: ObjectKey{"tenant", fmt.Sprint("t", i)}, TopologyKeys: &keys, Ports: ports, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})}})
	}
	for i := range 1000 {
		annotate(i, 0)
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			See(build.Build(), "n0", Options{})
		}
	})
	viewer := NewViewer("n0", Options{})
	viewer.See(build.Build())
	b.Run("one", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			annotate(0, i+1)
			viewer.See(build.Build())
		}
	})
}
