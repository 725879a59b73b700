package feed

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the feed.
type Metrics struct {
	lists *prometheus.CounterVec
	held  *prometheus.CounterVec
	heard *prometheus.GaugeVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		lists: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_feed_lists_total", Help: "Lists of the API server that were taken."}, []string{"watch"}),
		held:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_feed_held_total", Help: "Lists of the API server that were not believed."}, []string{"watch"}),
		heard: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gridmesh_feed_heard_timestamp_seconds", Help: "When a watch of the API server last brought an event or a bookmark; at first, when its list was taken; of a kind that the API server does not know, when it last said so."}, []string{"watch"}),
	}
	r.MustRegister(m.lists, m.held, m.heard)
	return m
}
