// Package bench measures the decision and the rendering of a node at the size
// of a large cluster: 10,000 Services of 10 endpoints.
package bench

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

const (
	services  = 10_000
	endpoints = 10
	nodes     = 1_000
	units     = 100
)

func slice(i, generation int) *topology.Slice {
	name := fmt.Sprintf("s%05d", i)
	s := &topology.Slice{
		Key: topology.ObjectKey{Namespace: "default", Name: name}, Service: name,
		Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: 8080}},
	}
	for j := range endpoints {
		n := (i*7 + j*97 + generation) % nodes
		s.Endpoints = append(s.Endpoints, topology.Endpoint{
			Addr: netip.AddrFrom4([4]byte{10, byte(n >> 2), byte(n<<6) | byte(i>>8), byte(i)}), Node: nodeName(n), Ready: true, Serving: true,
		})
	}
	return s
}

func nodeName(n int) string { return fmt.Sprintf("n%04d", n) }

// world is a cluster where half of the Services are closed.
func world() *topology.Builder {
	b := topology.NewBuilder()
	for n := range nodes {
		b.SetNode(&topology.Node{Name: nodeName(n), Labels: map[string]string{"unit": fmt.Sprint(n % units)}})
	}
	b.SetServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")})
	keys := `["unit"]`
	for i := range services {
		name := fmt.Sprintf("s%05d", i)
		s := &topology.Service{
			Key: topology.ObjectKey{Namespace: "default", Name: name}, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}},
		}
		if i%2 == 0 {
			s.TopologyKeys = &keys
		}
		b.SetService(s)
		b.SetSlice(slice(i, 0))
	}
	return b
}

// node is what an agent keeps.
type node struct {
	viewer  *topology.Viewer
	catalog *render.Cataloger
	planner *plan.Planner
}

func newNode() *node {
	return &node{topology.NewViewer("n0000", topology.Options{}), render.NewCataloger(render.Default(), 500), plan.NewPlanner(plan.Default())}
}

func (n *node) step(s *topology.Snapshot) (*render.Catalog, render.Changed) {
	v := n.viewer.See(s)
	cat, changed := n.catalog.Next(v, false)
	n.planner.Next(v)
	return cat, changed
}

// A cold start: the first view, catalog and plan of the whole cluster.
func BenchmarkFirstView(b *testing.B) {
	snap := world().Build()
	b.ReportAllocs()
	for b.Loop() {
		newNode().step(snap)
	}
}

// One endpoint of one Service changes. bytes/op is what Envoy is sent.
func BenchmarkOneChange(b *testing.B) {
	w := world()
	n := newNode()
	n.step(w.Build())
	b.ReportAllocs()
	sent, i := 0, 0
	for b.Loop() {
		i++
		w.SetSlice(slice(i%services, i+i/services))
		cat, changed := n.step(w.Build())
		for _, name := range changed[render.EndpointType] {
			r, _ := cat.Resource(render.EndpointType, name)
			sent += proto.Size(r.Message())
		}
	}
	b.ReportMetric(float64(sent)/float64(i), "bytes/change")
}

// One node changes its unit: only Services with endpoints there are seen again.
func BenchmarkNodeMoves(b *testing.B) {
	w := world()
	n := newNode()
	n.step(w.Build())
	i := 0
	for b.Loop() {
		i++
		w.SetNode(&topology.Node{Name: nodeName(1 + i%(nodes-1)), Labels: map[string]string{"unit": fmt.Sprint((i * 31) % units)}})
		n.step(w.Build())
	}
}

// What the agent's data takes in memory.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		before := heap()
		w := world()
		n := newNode()
		n.step(w.Build())
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		runtime.KeepAlive(w)
		runtime.KeepAlive(n)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
