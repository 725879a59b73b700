package check

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	checks *prometheus.CounterVec
	rounds prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gridmesh_health_checks_total", Help: "Nodes that were checked, by probe and what it found: well, not, unknown."}, []string{"probe", "found"}),
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gridmesh_health_round_duration_seconds", Help: "Time that a round of checks took.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
	}
	r.MustRegister(m.checks, m.rounds)
	return m
}

func (m *metrics) round(began time.Time) { m.rounds.Observe(time.Since(began).Seconds()) }

func (m *metrics) probed(d Detail) {
	found := "not"
	switch {
	case d.Well:
		found = "well"
	case d.Unknown:
		found = "unknown"
	}
	m.checks.WithLabelValues(d.Probe, found).Inc()
}
