package grid

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// Metrics of the controller.
type Metrics struct {
	writes   *prometheus.CounterVec
	failures prometheus.Counter
	steps    *prometheus.GaugeVec
	pass     prometheus.Histogram
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		writes:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_grid_writes_total", Help: "Children of grids that were written to, by what was done."}, []string{"action"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_grid_failures_total", Help: "Writes to children of grids that failed and are tried again."}),
		steps:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gridmesh_grid_children", Help: "Children of grids, by what the last pass had to do with them."}, []string{"action"}),
		pass:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gridmesh_grid_pass_duration_seconds", Help: "Time to plan all grids and carry out what differs.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}),
	}
	r.MustRegister(m.writes, m.failures, m.steps, m.pass)
	return m
}

func (m *Metrics) passed(plans []plan.Plan, took time.Duration) {
	m.pass.Observe(took.Seconds())
	m.steps.Reset()
	for _, p := range plans {
		for _, s := range p.Steps {
			m.steps.WithLabelValues(string(s.Action)).Inc()
		}
	}
}
