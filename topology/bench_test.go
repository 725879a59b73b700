package topology_test

import (
	"fmt"
	"net/netip"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// What one change costs at 10,000 Services that all have an external address of
// their own, or all claim the same one.
func BenchmarkClaims(b *testing.B) {
	const many = 10_000
	for name, address := range map[string]func(i int) netip.Addr{
		"own":  func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}) },
		"same": func(int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 1}) },
	} {
		service := func(i int, port uint16) *Service {
			return &Service{
				Key:        ObjectKey{fmt.Sprint("tenant-", i%100), fmt.Sprintf("web-%05d", i)},
				ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
				Ports:      []ServicePort{{Name: "a", Protocol: TCP, Port: 80}, {Name: "b", Protocol: UDP, Port: port}},
				Exposure:   &Exposure{ExternalIPs: []netip.Addr{address(i)}},
			}
		}
		build := NewBuilder()
		for i := range many {
			build.SetService(service(i, 53))
		}
		b.Run(name+"/all", func(b *testing.B) {
			for b.Loop() {
				See(build.Build(), "n0", Options{Outside: true})
			}
		})
		viewer := NewViewer("n0", Options{Outside: true})
		viewer.See(build.Build())
		b.Run(name+"/one", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				build.SetService(service(many-1, uint16(100+i%2)))
				viewer.See(build.Build())
			}
		})
	}
}
