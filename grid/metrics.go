package grid

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	conditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// Metrics of the controller.
type Metrics struct {
	leading  prometheus.Gauge
	writes   *prometheus.CounterVec
	failures prometheus.Counter
	units    *prometheus.GaugeVec
	states   *prometheus.GaugeVec
	plan     prometheus.Histogram
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		leading:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_controller_leading", Help: "1 of the replica that acts: it leads, and knows the cluster."}),
		writes:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_grid_writes_total", Help: "Children of grids that were written to, by what was done."}, []string{"action"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_grid_failures_total", Help: "Writes to grids and their children that failed and are tried again."}),
		units:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gridmesh_grid_units", Help: "Units of a grid, by state: all, ready, updated, dark, held, refused."}, []string{"kind", "namespace", "name", "state"}),
		states:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gridmesh_grid_state", Help: "1 of a grid that is so: invalid (its Valid is False), and its rollout stopped or paused."}, []string{"kind", "namespace", "name", "state"}),
		plan:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gridmesh_grid_plan_duration_seconds", Help: "Time to plan one grid.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8)}),
	}
	r.MustRegister(m.leading, m.writes, m.failures, m.units, m.states, m.plan)
	return m
}

// Lead notes that this replica acts, until end.
func (m *Metrics) Lead() (end func()) {
	m.leading.Set(1)
	return func() { m.leading.Set(0) }
}

// gone forgets a grid.
func (m *Metrics) gone(ref plan.Ref) {
	labels := prometheus.Labels{"kind": ref.Kind, "namespace": ref.Namespace, "name": ref.Name}
	m.units.DeletePartialMatch(labels)
	m.states.DeletePartialMatch(labels)
}

// planned notes the plan of a grid.
func (m *Metrics) planned(ref plan.Ref, p plan.Plan, took time.Duration) {
	m.plan.Observe(took.Seconds())
	m.stands(ref, p.Conditions())
	st := p.Workload
	if st == nil {
		return
	}
	for state, n := range map[string]int64{"all": st.Units, "ready": st.ReadyUnits, "updated": st.UpdatedUnits, "dark": st.DarkUnits, "held": st.HeldUnits, "refused": st.RefusedUnits} {
		m.units.WithLabelValues(ref.Kind, ref.Namespace, ref.Name, state).Set(float64(n))
	}
}

// stands notes what the conditions of a grid say; one that is being deleted has none,
// and nothing is wrong with it any more.
func (m *Metrics) stands(ref plan.Ref, list []metav1.Condition) {
	is := map[string]bool{"invalid": conditions.IsStatusConditionFalse(list, apiv1.Valid)}
	if kind, _ := plan.FindKind(ref.Kind); kind.PerUnit {
		rollout := conditions.FindStatusCondition(list, apiv1.Progressing)
		is["stopped"] = rollout != nil && rollout.Reason == plan.Stopped
		is["paused"] = rollout != nil && rollout.Reason == plan.Paused
	}
	for state, so := range is {
		value := 0.0
		if so {
			value = 1
		}
		m.states.WithLabelValues(ref.Kind, ref.Namespace, ref.Name, state).Set(value)
	}
}
