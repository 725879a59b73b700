package grid

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// Metrics of the controller.
type Metrics struct {
	leading  prometheus.Gauge
	writes   *prometheus.CounterVec
	failures prometheus.Counter
	units    *prometheus.GaugeVec
	plan     prometheus.Histogram
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		leading:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_controller_leading", Help: "1 of the replica that acts: it leads, and knows the cluster."}),
		writes:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_grid_writes_total", Help: "Children of grids that were written to, by what was done."}, []string{"action"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_grid_failures_total", Help: "Writes to children of grids that failed and are tried again."}),
		units:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gridmesh_grid_units", Help: "Units of a grid, by state: all, ready, updated, dark, held, refused."}, []string{"kind", "namespace", "name", "state"}),
		plan:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gridmesh_grid_plan_duration_seconds", Help: "Time to plan one grid.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8)}),
	}
	r.MustRegister(m.leading, m.writes, m.failures, m.units, m.plan)
	return m
}

// Lead notes that this replica acts, until end.
func (m *Metrics) Lead() (end func()) {
	m.leading.Set(1)
	return func() { m.leading.Set(0) }
}

// gone forgets a grid.
func (m *Metrics) gone(ref plan.Ref) {
	m.units.DeletePartialMatch(prometheus.Labels{"kind": ref.Kind, "namespace": ref.Namespace, "name": ref.Name})
}

// planned notes the plan of a grid.
func (m *Metrics) planned(ref plan.Ref, p plan.Plan, took time.Duration) {
	m.plan.Observe(took.Seconds())
	st := p.Workload
	if st == nil {
		return
	}
	for state, n := range map[string]int64{"all": st.Units, "ready": st.ReadyUnits, "updated": st.UpdatedUnits, "dark": st.DarkUnits, "held": st.HeldUnits, "refused": st.RefusedUnits} {
		m.units.WithLabelValues(ref.Kind, ref.Namespace, ref.Name, state).Set(float64(n))
	}
}
