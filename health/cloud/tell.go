package cloud

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/health/shield"
	"github.com/gridmesh/gridmesh/internal/obs"
	leading "github.com/gridmesh/gridmesh/kube/lead"
)

// Metrics are what is counted.
type Metrics struct {
	nodes    *prometheus.GaugeVec
	kept     prometheus.Gauge
	writes   *prometheus.CounterVec
	policies *prometheus.GaugeVec
	unitless prometheus.Gauge
	faults   *prometheus.GaugeVec
}

// NewMetrics registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gridmesh_health_nodes", Help: "Nodes by what is to become of them: shield, hold, hold bound, suspect, evict.",
		}, []string{"action"}),
		kept: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gridmesh_health_kept_seconds", Help: "For how long the node is lost that is lost the longest of those whose pods are kept, all or some; 0 where none is.",
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gridmesh_health_writes_total", Help: "What was written for node health: the list, the table of units, admission policies, pods' conditions, evictions, taints.",
		}, []string{"what", "result"}),
		policies: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gridmesh_health_policies", Help: "Admission policies and their bindings: kept, unserved (the API server has no such kind), failed.",
		}, []string{"state"}),
		unitless: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gridmesh_health_nodes_without_room", Help: "Nodes that found no room in the table of units: they do not vote, and are not voted on.",
		}),
		faults: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gridmesh_health_watch_faults", Help: "1 where the API server does not tell of what node health goes by: nodes, leases. Nobody is given up then.",
		}, []string{"watch"}),
	}
	r.MustRegister(m.nodes, m.kept, m.writes, m.policies, m.unitless, m.faults)
	m.heard(nil, nil)
	for _, state := range []string{"kept", "unserved", "failed"} {
		m.policies.WithLabelValues(state)
	}
	for _, what := range []string{"list", "units", "policy", "pod", "eviction", "taint"} {
		m.writes.WithLabelValues(what, "ok")
		m.writes.WithLabelValues(what, "failed")
	}
	return m
}

func (m *Metrics) set(counts map[shield.Action]int, kept time.Duration) {
	m.kept.Set(kept.Seconds())
	for _, a := range []shield.Action{shield.Shield, shield.Hold, shield.HoldBound, shield.Suspect, shield.Evict} {
		m.nodes.WithLabelValues(a.String()).Set(float64(counts[a]))
	}
}

// installed counts policies. Where the API server is away nothing is known, and what was stays.
func (m *Metrics) installed(done leading.Installed) {
	if done.Kept+done.Left+done.Failed == 0 {
		return
	}
	m.policies.WithLabelValues("kept").Set(float64(done.Kept))
	m.policies.WithLabelValues("unserved").Set(float64(done.Left))
	m.policies.WithLabelValues("failed").Set(float64(done.Failed))
}

// heard shows which watch fails.
func (m *Metrics) heard(nodes, leases error) {
	for watch, err := range map[string]error{"nodes": nodes, "leases": leases} {
		n := 0.0
		if err != nil {
			n = 1
		}
		m.faults.WithLabelValues(watch).Set(n)
	}
}

func (m *Metrics) wrote(what string, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.writes.WithLabelValues(what, result).Inc()
}

// Reasons of Events about Nodes.
const (
	reasonShielded = "NodeShielded"
	reasonHeld     = "NodeHeld"
	reasonPart     = "NodeHeldForBoundPods"
	reasonReleased = "NodeReleased"
	reasonDead     = "NodeVotedDead"
	reasonUnseen   = "NodeUnseenByUnit"
)

// tell tells of a node of which something else is to become than before. Of a unit that falls
// silent for a moment, and of nodes that the cloud hears all the while, nobody needs to know.
func (k *Keeper) tell(name string, s *seen, action shield.Action, why string) {
	if action.Keeps() && !s.lost() {
		return
	}
	was := k.said[name]
	if was == action {
		return
	}
	k.said[name] = action
	kind := corev1.EventTypeNormal
	var reason string
	switch {
	case action == shield.Shield:
		reason = reasonShielded
	case action == shield.Hold:
		reason = reasonHeld
	case action == shield.HoldBound:
		kind, reason = corev1.EventTypeWarning, reasonPart
	case action == shield.Evict:
		kind, reason = corev1.EventTypeWarning, reasonDead
	case action == shield.Suspect:
		kind, reason = corev1.EventTypeWarning, reasonUnseen
	case was.Keeps():
		reason = reasonReleased
	default:
		return
	}
	k.cfg.Log.Info("something else is to become of a node", obs.KeyNode, name, obs.KeyAction, action.String(), obs.KeyWhy, why)
	k.cluster.Event(name, s.uid, kind, reason, why)
}
