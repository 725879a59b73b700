package node

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/node/report"
)

// metrics of the agent's loop. Those of kube-proxy's names keep its
// dashboards working.
type metrics struct {
	syncDuration  prometheus.Histogram
	syncLast      prometheus.Gauge
	programming   prometheus.Histogram
	syncFailures  prometheus.Counter
	repairs       prometheus.Counter
	closed        prometheus.Counter
	problems      prometheus.Gauge
	held          prometheus.Gauge
	dead          prometheus.Gauge
	absent        prometheus.Gauge
	absences      prometheus.Counter
	handing       prometheus.Histogram
	unanswered    prometheus.Counter
	frontends     *prometheus.GaugeVec
	elsewhere     prometheus.Gauge
	stateBytes    prometheus.Counter
	stateFailures prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		syncDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubeproxy_sync_proxy_rules_duration_seconds", Help: "Time from a snapshot to rules and resources in force.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}),
		syncLast: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubeproxy_sync_proxy_rules_last_timestamp_seconds", Help: "When rules were last in line with the snapshot."}),
		programming: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubeproxy_network_programming_duration_seconds", Help: "Time from the change of a pod or Service, as the endpoint slice controller noted it, to rules and resources in force.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 18),
		}),
		syncFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_capture_failures_total", Help: "Failed writes of capture rules."}),
		repairs:      prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_capture_repairs_total", Help: "Times that rules or sysctls changed by somebody else were put back."}),
		closed:       prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_moved_connections_closed_total", Help: "Connections closed because a move put their endpoint out of reach (--close-on-move)."}),
		problems:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_problems", Help: "Mistakes in objects, as gridmesh-agent status lists them."}),
		held:         prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_held_endpoints", Help: "Endpoints of this unit that are held as they were before an outage of the uplink, until their nodes have reported."}),
		dead:         prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_voted_dead_nodes", Help: "Nodes that count as dead by the vote of their unit, while the API server is away or has not heard them since: endpoints on others come first."}),
		absent:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_envoy_absent", Help: "1 while Envoy takes no connections, and the kernel serves what it served (--datapath)."}),
		absences:     prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_envoy_absences_total", Help: "Times that the kernel began to serve what Envoy served, for that took no connections (--datapath)."}),
		handing: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gridmesh_envoy_handing_seconds", Help: "Time that Envoy took to answer what it was told of clusters that it is handed connections for; they wait for it.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 11),
		}),
		unanswered:    prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_envoy_handings_unanswered_total", Help: "Times that Envoy was handed connections before it had answered what it was told of their clusters, or without that it was waited for."}),
		elsewhere:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "gridmesh_services_elsewhere", Help: "Closed Services that this node may use no endpoint of, though there are some in other units."}),
		frontends:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gridmesh_frontends", Help: "Frontends by what serves them: envoy, kernel, or none."}, []string{"path"}),
		stateBytes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_state_written_bytes_total", Help: "Bytes written to the state file."}),
		stateFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "gridmesh_state_failures_total", Help: "Failed writes of the state file."}),
	}
	return m
}

// register makes them visible; names that are taken are an error.
func (m *metrics) register(r prometheus.Registerer) error {
	var errs []error
	for _, c := range []prometheus.Collector{
		m.syncDuration,
		m.syncLast,
		m.programming,
		m.syncFailures,
		m.repairs,
		m.closed,
		m.problems,
		m.elsewhere,
		m.held,
		m.dead,
		m.handing,
		m.unanswered,
		m.stateBytes,
		m.stateFailures,
	} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// registerPaths makes those of two paths visible.
func (m *metrics) registerPaths(r prometheus.Registerer) error {
	return errors.Join(r.Register(m.absent), r.Register(m.absences), r.Register(m.frontends))
}

func (m *metrics) synced(start time.Time) {
	now := time.Now()
	m.syncDuration.Observe(now.Sub(start).Seconds())
	m.syncLast.Set(float64(now.UnixNano()) / 1e9)
}

// paths takes how many frontends are served by what.
func (m *metrics) paths(n report.Paths) {
	for path, of := range map[string]int{"envoy": n.Envoy, "kernel": n.Kernel, "none": n.None} {
		m.frontends.WithLabelValues(path).Set(float64(of))
	}
}

// programmed takes the times at which the changes now in force began.
func (m *metrics) programmed(began []time.Time) {
	now := time.Now()
	for _, at := range began {
		m.programming.Observe(now.Sub(at).Seconds())
	}
}

// countProgrammed counts how long changes took, where the source's newest snapshot is in
// force. Of those that come while something is held none is counted: which of them
// waits, none can tell, and what waits does so on purpose.
func (l *loop) countProgrammed() {
	if l.raw == nil || l.failure != nil {
		return
	}
	if l.healing.held.Endpoints == 0 {
		l.metrics.programmed(l.raw.TriggersSince(l.counted))
	}
	l.counted = l.raw
}
