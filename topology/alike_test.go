package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// sliced parts the endpoints of a wide Service into slices of a hundred, as Kubernetes'
// controller does; number says which number a port has in a slice.
func (w *wide) sliced(number func(slice, port int) uint16) *Snapshot {
	whole, _ := w.build().Services.Get(wideKey)
	all := whole.Slices[0]
	w.DeleteSlice(all.Key)
	n := 0
	for part := range slices.Chunk(all.Endpoints, 100) {
		s := *all
		s.Key.Name, s.Endpoints, s.Ports = fmt.Sprintf("wide-%02d", n), part, slices.Clone(all.Ports)
		for i := range s.Ports {
			s.Ports[i].Port = number(n, i)
		}
		w.SetSlice(&s)
		n++
	}
	return w.Build()
}

// What a tenant's ports times endpoints cost a node at each change is bounded: ports
// that differ in nothing but their number are decided once. Where thousands differ in
// more than that, some have no decision, and who looks is told.
func TestPortsAreDecidedTogether(t *testing.T) {
	anybody := `["site","*"]`
	for name, c := range map[string]struct {
		number func(slice, port int) uint16
		looks  int
		told   bool
	}{
		"each its number":           {func(_, port int) uint16 { return uint16(8000 + port) }, 1000, false},
		"one number":                {func(int, int) uint16 { return 8080 }, 1000, false},
		"two versions":              {func(slice, port int) uint16 { return uint16(8000 + port + slice%2*10_000) }, 1000, false},
		"two versions, some differ": {func(slice, port int) uint16 { return uint16(8000 + port + slice%2*port%7) }, 7000, false},
		"each differs":              {func(slice, port int) uint16 { return uint16(8000 + (1+slice%2)*port) }, 1 << 20, true},
	} {
		w := newWide(1200, 1000, TCP, "10.96.0.1") // more than 1<<20 pairs
		w.TopologyKeys = &anybody
		snap, looks := w.sliced(c.number), 0
		v := NewViewer("n7", Options{})
		v.CountLooks(&looks)
		view := v.See(snap)
		if looks < c.looks || looks >= c.looks+1000 {
			t.Errorf("%s: %d endpoints were looked at, want %d", name, looks, c.looks)
		}
		sv, _ := view.Service(wideKey)
		refused := 0
		for i, f := range sv.Frontends {
			if len(f.Tiers) == 0 {
				refused++
				continue
			}
			for _, e := range f.Tiers[0].Endpoints {
				addr := e.Addr.Addr().As4()
				slice := (int(addr[2])<<8 + int(addr[3])) / 100
				if want := c.number(slice, i); e.Addr.Port() != want {
					t.Fatalf("%s: %s leads to %s, want the port %d", name, f.Frontend, e.Addr, want)
				}
			}
		}
		if told := slices.ContainsFunc(sv.Problems, func(p Problem) bool {
			return strings.HasPrefix(p.Text, fmt.Sprintf("%d of its ports are refused", refused))
		}); told != c.told || refused > 0 != c.told {
			t.Errorf("%s: %d ports are refused, problems %v", name, refused, sv.Problems)
		}
		if sv.Near != RankFirst {
			t.Errorf("%s: it is near by rank %d", name, sv.Near)
		}
		if last := sv.Frontends[len(sv.Frontends)-1]; c.told {
			left := Explain(snap, view, Options{}, wideKey)[last.Frontend]
			if len(left) != 1000 || left[0].Rule != "ports" || left[0].Cure == "" {
				t.Errorf("%s: it is explained of %d endpoints why they are left out: %+v", name, len(left), left[:min(1, len(left))])
			}
		}
	}
}

// What the ports of a Service cost takes nothing from what a load balancer is told.
func TestTheHealthCheckIsOfPortsThatAreRefusedToo(t *testing.T) {
	anybody := `["site","*"]`
	w := newWide(1200, 1000, TCP, "10.96.0.1") // more than 1<<20 pairs
	w.TopologyKeys = &anybody
	w.Exposure = &Exposure{Local: true, HealthCheckNodePort: 32000, LoadBalancers: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	snap := w.sliced(func(slice, port int) uint16 { return uint16(8000 + (1+slice%2)*port) })
	here := 0
	entry, _ := snap.Services.Get(wideKey)
	for _, s := range entry.Slices {
		for _, e := range s.Endpoints {
			if e.Node == "n7" {
				here++
			}
		}
	}
	sv, _ := NewViewer("n7", Options{Datapath: DatapathKernel}).See(snap).Service(wideKey)
	if here == 0 || sv.HealthCheck.IPv4 != here {
		t.Errorf("a load balancer is told of %d endpoints, and this node has %d", sv.HealthCheck.IPv4, here)
	}
}
