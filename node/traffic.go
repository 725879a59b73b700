package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/admin"
)

const (
	// maxCounted is how many Services have connection metrics of their own.
	maxCounted = 100
	// countIdle is how long one without connections keeps its place from
	// others, where there are more of them.
	countIdle = time.Hour
	// otherServices gathers those without; no Service is called that, for they
	// have a slash.
	otherServices = "other"
)

// traffic counts connections by Service.
type traffic struct {
	*admin.Traffic
	busy map[string]counted // Services with counters of their own
}

type counted struct {
	key topology.ObjectKey
	at  time.Time // when it last had connections
}

func newTraffic() *traffic {
	return &traffic{admin.NewTraffic(maxCounted), map[string]counted{}}
}

// take adds what Envoy says, and returns the clusters that had connections
// since the last time.
func (t *traffic) take(list []admin.Cluster, known *inForce, now time.Time) (used []string) {
	t.forget(known.view, now)
	used = t.Take(list, func(cluster string) string {
		if entry, ok := known.catalog.Entry(cluster); ok {
			return entry.Service.String()
		}
		return ""
	})
	totals := t.Totals()
	for _, cluster := range used {
		entry, _ := known.catalog.Entry(cluster)
		name := entry.Service.String()
		if _, has := totals[name]; has {
			t.busy[name] = counted{entry.Service, now}
		}
	}
	return used
}

// forget makes room: of Services that are gone, and, where others want it, of
// those that are idle.
func (t *traffic) forget(view *topology.View, now time.Time) {
	_, full := t.Totals()[admin.Other]
	for name, c := range t.busy {
		if _, there := view.Service(c.key); !there || full && now.Sub(c.at) > countIdle {
			delete(t.busy, name)
		}
	}
	t.Forget(func(service string) bool { _, keep := t.busy[service]; return keep })
}

// envoyMetrics shows what Envoy said last.
type envoyMetrics struct {
	look                                   *latest.Value[*envoyLook]
	connections, failures, active, ejected *prometheus.Desc
	open, refused, heap                    *prometheus.Desc
}

func newEnvoyMetrics(look *latest.Value[*envoyLook]) *envoyMetrics {
	by := []string{"service"}
	return &envoyMetrics{
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
func (m *envoyMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.connections, m.failures, m.active, m.ejected, m.open, m.refused, m.heap} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *envoyMetrics) Collect(to chan<- prometheus.Metric) {
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
		if look.err == nil {
			to <- prometheus.MustNewConstMetric(m.active, prometheus.GaugeValue, float64(c.Active), service)
		}
	}
	if look.err == nil {
		to <- prometheus.MustNewConstMetric(m.ejected, prometheus.GaugeValue, float64(look.out))
	}
	if l := look.load; l != nil {
		to <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, float64(l.Connections))
		to <- prometheus.MustNewConstMetric(m.refused, prometheus.CounterValue, float64(l.Refused))
		to <- prometheus.MustNewConstMetric(m.heap, prometheus.GaugeValue, float64(l.Heap)/100)
	}
}
