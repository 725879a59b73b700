package feed

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the feed.
type Metrics struct {
	lists *prometheus.CounterVec
	held  *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		lists: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_feed_lists_total", Help: "Lists of the API server that were taken."}, []string{"watch"}),
		held:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_feed_held_total", Help: "Lists of the API server that were not believed."}, []string{"watch"}),
	}
	r.MustRegister(m.lists, m.held)
	return m
}
