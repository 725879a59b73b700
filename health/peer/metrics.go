package peer

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	received, sent, refused *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		received: vec("gridmesh_health_received_total", "Requests of other nodes that were taken, by path and in whose form: gridmesh, superedge.", "path", "form"),
		sent:     vec("gridmesh_health_sent_total", "Requests to other nodes, by path and what came of them: ok, view, refused, failed.", "path", "result"),
		refused:  vec("gridmesh_health_refused_total", "Requests of others that were refused, by reason.", "reason"),
	}
	for reason := range refusals {
		m.refused.WithLabelValues(string(reason))
	}
	r.MustRegister(m.received, m.sent, m.refused)
	return m
}
