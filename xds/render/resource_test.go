package render

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// The version of endpoints is made wherever they are sent, and nothing else is sent
// meanwhile: it costs as much for each, however many there are.
func TestVersionsInTheNumberOfEndpoints(t *testing.T) {
	allocated := func(n int) (bytes uint64) {
		tier := topology.Tier{}
		for i := range n {
			tier.Endpoints = append(tier.Endpoints, topology.Target{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80)})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Endpoints("default/web/80", topology.TCP, []topology.Tier{tier})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := allocated(1000), allocated(20_000)
	t.Logf("%d bytes for 1000 endpoints, %d for 20,000", few, many)
	if many > 40*few {
		t.Errorf("20 times as many endpoints cost %d times as much", many/few)
	}
}
