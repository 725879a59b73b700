package health

import "github.com/prometheus/client_golang/prometheus"

// Metrics are what is counted.
type Metrics struct {
	members prometheus.Gauge
	sends   *prometheus.CounterVec
}

// NewMetrics registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		members: prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_health_members", Help: "Nodes of this node's unit."}),
		sends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gridmesh_health_sends_total", Help: "What the vote had sent: reports and questions to other nodes, verdicts to the API server.",
		}, []string{"what", "result"}),
	}
	r.MustRegister(m.members, m.sends)
	for _, what := range []string{"report", "question", "verdict"} {
		m.sends.WithLabelValues(what, "ok")
		m.sends.WithLabelValues(what, "failed")
	}
	return m
}

func (m *Metrics) sent(what string, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.sends.WithLabelValues(what, result).Inc()
}
