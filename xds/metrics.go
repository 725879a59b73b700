package xds

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the xDS server.
type Metrics struct {
	streams   prometheus.Gauge
	over      prometheus.Gauge
	cut       prometheus.Gauge
	resources *prometheus.CounterVec
	removed   *prometheus.CounterVec
	bytes     *prometheus.CounterVec
	nacks     *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"type"})
	}
	m := &Metrics{
		streams:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_xds_streams", Help: "Connected Envoys."}),
		over:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_xds_clusters_over", Help: "Clusters that Envoy asked for by name and did not get, for it has as many as it may."}),
		cut:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_xds_clusters_cut", Help: "Clusters that Envoy asked for by name and has a part of the endpoints of, for together they have more than it may hold."}),
		resources: vec("gridmesh_xds_resources_sent_total", "Resources sent to Envoy."),
		removed:   vec("gridmesh_xds_resources_removed_total", "Resources removed from Envoy."),
		bytes:     vec("gridmesh_xds_bytes_sent_total", "Bytes of resources sent to Envoy."),
		nacks:     vec("gridmesh_xds_nacks_total", "Responses that Envoy refused."),
	}
	r.MustRegister(m.streams, m.over, m.cut, m.resources, m.removed, m.bytes, m.nacks)
	return m
}
