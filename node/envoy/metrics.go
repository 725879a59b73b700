package envoy

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/xds/admin"
)

// Metrics show what Envoy said last.
type Metrics struct {
	look                                   *latest.Value[*Look]
	connections, failures, active, ejected *prometheus.Desc
	open, refused, heap                    *prometheus.Desc
}

// NewMetrics reads the looks that are published there.
func NewMetrics(look *latest.Value[*Look]) *Metrics {
	by := []string{"service"}
	return &Metrics{
		look:        look,
		connections: prometheus.NewDesc("gridmesh_service_connections_total", "Connections that Envoy tried to endpoints of a Service; those of Services without a place of their own are \"other\".", by, nil),
		failures:    prometheus.NewDesc("gridmesh_service_connection_failures_total", "Those of them that failed; the next endpoint is tried then.", by, nil),
		active:      prometheus.NewDesc("gridmesh_service_open_connections", "Connections to endpoints of a Service that were open when Envoy was last asked.", by, nil),
		ejected:     prometheus.NewDesc("gridmesh_ejected_endpoints", "Endpoints that Envoy sent nobody to when it was last asked.", nil, nil),
		open:        prometheus.NewDesc("gridmesh_envoy_open_connections", "Connections of clients that were open when Envoy was last asked.", nil, nil),
		refused:     prometheus.NewDesc("gridmesh_envoy_refused_connections_total", "Connections that Envoy refused since its start, for it had as many as it takes.", nil, nil),
		heap:        prometheus.NewDesc("gridmesh_envoy_heap_ratio", "How much of --envoy-heap-limit Envoy used when it was last asked; from 0.95 on it takes no connections.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.connections, m.failures, m.active, m.ejected, m.open, m.refused, m.heap} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	look, ok := m.look.Get()
	if !ok {
		return
	}
	for service, c := range look.totals {
		if service == admin.Other {
			service = otherServices
		}
		to <- prometheus.MustNewConstMetric(m.connections, prometheus.CounterValue, float64(c.Connections), service)
		to <- prometheus.MustNewConstMetric(m.failures, prometheus.CounterValue, float64(c.Failed), service)
		if look.Err == nil {
			to <- prometheus.MustNewConstMetric(m.active, prometheus.GaugeValue, float64(c.Active), service)
		}
	}
	if look.Err == nil {
		to <- prometheus.MustNewConstMetric(m.ejected, prometheus.GaugeValue, float64(look.out))
	}
	if l := look.Load; l != nil {
		to <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, float64(l.Connections))
		to <- prometheus.MustNewConstMetric(m.refused, prometheus.CounterValue, float64(l.Refused))
		to <- prometheus.MustNewConstMetric(m.heap, prometheus.GaugeValue, float64(l.Heap)/100)
	}
}
