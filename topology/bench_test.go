package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
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

// What one change costs of a Service of 1000 endpoints, by the number of its ports; with
// slices that have other numbers for some of them, too.
func BenchmarkPorts(b *testing.B) {
	anybody := `["site","*"]`
	for _, ports := range []int{10, 100, 3000} {
		for name, others := range map[string]int{"alike": 1, "others": 7} {
			w := newWide(ports, 1000, TCP, "10.96.0.1")
			w.TopologyKeys = &anybody
			snap := w.sliced(func(slice, port int) uint16 { return uint16(8000 + port + slice%2*(port%others)) })
			entry, _ := snap.Services.Get(wideKey)
			viewer, changed := NewViewer("n7", Options{}), *entry.Slices[3]
			viewer.See(snap)
			b.Run(fmt.Sprintf("%d/%s", ports, name), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					next := changed
					next.Endpoints = slices.Clone(changed.Endpoints)
					next.Endpoints[0].Ready = i%2 > 0
					w.SetSlice(&next)
					viewer.See(w.Build())
				}
			})
		}
	}
}

// What one change costs of a Service of 3000 ports, by the number of slices that have
// sixteen other ports each.
func BenchmarkSlicesOfOtherPorts(b *testing.B) {
	for _, foreign := range []int{0, 1000} {
		w := newWide(3000, 100, TCP, "10.96.0.1")
		snap := w.sliced(func(_, port int) uint16 { return uint16(8000 + port) })
		entry, _ := snap.Services.Get(wideKey)
		viewer, changed := NewViewer("n7", Options{}), *entry.Slices[0]
		for n := range foreign {
			s := Slice{Key: ObjectKey{wideKey.Namespace, fmt.Sprintf("other-%04d", n)}, Service: wideKey.Name, Endpoints: changed.Endpoints[:1]}
			for i := range 16 {
				s.Ports = append(s.Ports, SlicePort{Name: fmt.Sprintf("other-%d-%d", n, i), Protocol: TCP, Port: uint16(1 + i)})
			}
			w.SetSlice(&s)
		}
		viewer.See(w.Build())
		b.Run(fmt.Sprint(foreign), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				s := changed
				s.Endpoints = changed.Endpoints[i%2:]
				w.SetSlice(&s)
				viewer.See(w.Build())
			}
		})
	}
}

// What one change costs of a Service with ranges, by the number of others that have some: with
// room for all, and without.
func BenchmarkRanges(b *testing.B) {
	for _, many := range []int{1500, 10_000} {
		build := NewBuilder()
		service := func(i int) *Service {
			s := guardedService(fmt.Sprint("tenant-", i%100), i, 1, 1)
			s.Key.Name, s.Exposure.ExternalIPs, s.Ports[0].Port = fmt.Sprintf("web-%05d", i), nil, 80
			return s
		}
		for i := range many {
			build.SetService(service(i))
		}
		viewer := NewViewer("n0", Options{Datapath: DatapathKernel})
		viewer.See(build.Build())
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				s := service(many - 1)
				s.Ports[0].Port += uint16(i % 2)
				build.SetService(s)
				viewer.See(build.Build())
			}
		})
	}
}
