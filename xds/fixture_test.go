package xds

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
	"github.com/gridmesh/gridmesh/xds/xdstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a server behind a decision: Services with one endpoint each, by
// the last byte of their address, seen from node a-1.
type cluster struct {
	t         testing.TB
	builder   *topology.Builder
	cataloger *render.Cataloger
	server    *Server
	registry  *prometheus.Registry
	socket    string
	asked     chan []string
	refused   chan Nack

	namespaces map[byte]string // of Services that are not in "default"
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{
		t: t, builder: topology.NewBuilder(), cataloger: render.NewCataloger(render.Default(), 500),
		registry: prometheus.NewRegistry(), asked: make(chan []string, 100), refused: make(chan Nack, 100),
	}
	c.builder.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"unit": "a"}})
	c.server = New(Config{
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(c.registry),
		Asked: func(names []string) { keep(c.asked, names) }, Refused: func(n Nack) { keep(c.refused, n) },
	})
	return c
}

// serving is a cluster with a first catalog, behind a socket.
func serving(t testing.TB, near, far []byte) *cluster {
	t.Helper()
	c := newCluster(t)
	c.socket = xdstest.Serve(t, c.server.Register)
	c.near(9, near...)
	c.far(9, far...)
	c.publish()
	return c
}

// near sets Services of the unit: they are preloaded.
func (c *cluster) near(endpoint byte, services ...byte) {
	keys := `["unit"]`
	for _, n := range services {
		c.service(n, &keys, "a-1", endpoint)
	}
}

// far sets Services that are fetched on demand. Their clusters differ from
// near ones, their endpoints do not.
func (c *cluster) far(endpoint byte, services ...byte) {
	for _, n := range services {
		c.service(n, nil, "far", endpoint)
	}
}

func (c *cluster) service(n byte, keys *string, node string, endpoint byte) {
	ip := netip.AddrFrom4([4]byte{10, 96, 0, n})
	s := &topology.Service{
		Key: c.keyOf(n), ClusterIPs: []netip.Addr{ip}, TopologyKeys: keys,
		Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}},
	}
	c.builder.SetService(s)
	c.builder.SetSlice(&topology.Slice{
		Key: s.Key, Service: s.Key.Name, Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: 8080}},
		Endpoints: []topology.Endpoint{{Addr: netip.AddrFrom4([4]byte{10, 1, 0, endpoint}), Node: node, Ready: true, Serving: true}},
	})
}

func (c *cluster) remove(services ...byte) {
	for _, n := range services {
		c.builder.DeleteService(serviceKey(n))
		c.builder.DeleteSlice(serviceKey(n))
	}
}

func (c *cluster) keyOf(n byte) topology.ObjectKey {
	key := serviceKey(n)
	if namespace, other := c.namespaces[n]; other {
		key.Namespace = namespace
	}
	return key
}

func serviceKey(n byte) topology.ObjectKey {
	return topology.ObjectKey{Namespace: "default", Name: netip.AddrFrom4([4]byte{10, 96, 0, n}).String()}
}

func (c *cluster) next(provisional bool) (*render.Catalog, render.Changed) {
	return c.cataloger.Next(topology.See(c.builder.Build(), "a-1", topology.Options{}), provisional)
}

func (c *cluster) publish()            { c.server.Update(c.next(false)) }
func (c *cluster) publishProvisional() { c.server.Update(c.next(true)) }

// metric is the sum of a metric over its labels.
func (c *cluster) metric(name string) (sum float64) {
	c.t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// catalogOf makes a catalog without a server.
func catalogOf(near, far []byte, endpoint byte) *render.Catalog {
	c := &cluster{builder: topology.NewBuilder(), cataloger: render.NewCataloger(render.Default(), 500)}
	c.builder.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"unit": "a"}})
	c.near(endpoint, near...)
	c.far(endpoint, far...)
	cat, _ := c.next(false)
	return cat
}

// name is the cluster of a Service.
func name(n byte) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, n}), 80).String()
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// keep puts v into the channel, or drops it where nobody reads.
func keep[T any](list chan<- T, v T) {
	select {
	case list <- v:
	default:
	}
}
