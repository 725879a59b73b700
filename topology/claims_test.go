package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// Thousands claim one address, and the eldest of them comes and goes: who has it, who is next
// and the few who are told of it are evaluated again, and nobody behind them.
func TestManyClaimOneAddress(t *testing.T) {
	const many, few = 2000, 10
	b := NewBuilder()
	service := func(i int) *Service {
		return &Service{
			Key: ObjectKey{fmt.Sprint("tenant-", i%100), fmt.Sprintf("web-%05d", i)}, Created: int64(1 + i),
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports:      []ServicePort{{Protocol: TCP, Port: 80}}, Exposure: &Exposure{ExternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
		}
	}
	for i := range many {
		b.SetService(service(i))
	}
	viewer := NewViewer("n0", Options{Datapath: DatapathKernel})
	before := viewer.See(b.Build())
	eldest, second := service(0), service(1)
	for round := range 4 {
		has := eldest.Key
		if round%2 == 0 {
			b.DeleteService(eldest.Key)
			has = second.Key
		} else {
			b.SetService(eldest)
		}
		view := viewer.See(b.Build())
		if n := len(slices.Collect(view.Changed(before))); n > few {
			t.Errorf("round %d: %d of %d are evaluated again, want no more than %d", round, n, many, few)
		}
		if sv, _ := view.Service(has); len(sv.Outside) != 1 || len(sv.Problems) > 0 {
			t.Errorf("round %d: %s has %v, %v", round, has, sv.Outside, sv.Problems)
		}
		for i, want := range map[int]string{
			5:        "belongs to service " + has.String() + " already",
			many - 1: "belongs to one of 8 or more services that come before this one",
		} {
			sv, _ := view.Service(service(i).Key)
			if len(sv.Outside) > 0 || len(sv.Problems) != 1 || !strings.Contains(sv.Problems[0].Text, want) {
				t.Errorf("round %d: %s has %v, and is told %v, want %q", round, sv.Key, sv.Outside, sv.Problems, want)
			}
		}
		before = view
	}
}
