package admission

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the webhook.
type Metrics struct {
	registry prometheus.Registerer
	reviews  *prometheus.CounterVec
	took     *prometheus.HistogramVec
	issued   *prometheus.CounterVec
	failures prometheus.Counter
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		registry: r,
		reviews:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_admission_reviews_total", Help: "Writes that the webhook was asked about, by what came of it: shielded, or why they were left as they are. All were allowed."}, []string{"review", "result"}),
		took:     prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gridmesh_admission_review_duration_seconds", Help: "Time from the head of a call to its answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 7)}, []string{"review"}),
		issued:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_admission_certificate_steps_total", Help: "What this replica did for the certificate: begin, prepare, publish, promote."}, []string{"step"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_admission_certificate_failures_total", Help: "Attempts of that which failed and are made again."}),
	}
	r.MustRegister(m.reviews, m.took, m.issued, m.failures)
	return m
}

// ofShield has the shield shown.
func (m *Metrics) ofShield(s *Shield) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gridmesh_admission_shielded_nodes", Help: "Nodes in the shield whose time has not come."}, func() float64 { return float64(s.inForce(time.Now())) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gridmesh_admission_shield_unread_entries", Help: "Entries of the shield that are no time, and shield nobody."}, func() float64 { return float64(s.unread.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gridmesh_admission_shield_stale_seconds", Help: "Time since the API server last told what the shield is."}, func() float64 { return s.stale(time.Now()).Seconds() }),
	)
}

// OfCertificate has the time shown that is left of the certificate that serves; until it
// is known, none is.
func (m *Metrics) OfCertificate(expires func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gridmesh_admission_certificate_days_left", Help: "Days until the certificate that this replica shows expires; 0 where it has none."}, func() float64 {
		return daysLeft(expires(), time.Now())
	}))
}

func daysLeft(expires, now time.Time) float64 {
	if expires.IsZero() {
		return 0
	}
	return expires.Sub(now).Hours() / 24
}
