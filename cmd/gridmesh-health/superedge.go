package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health"
	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
)

// groupings are how nodes are grouped into units, the newest in a channel of one: by a label,
// or as SuperEdge's ConfigMaps have it. Who follows these, and keys in files, is put into the
// group.
func (c *config) groupings(g *run.Group, client *kube.Client, tell func(keys ...[]byte) error, r prometheus.Registerer, log *slog.Logger) <-chan health.Grouping {
	if !c.superEdgesKey() {
		keys := &keyFiles{paths: c.keys, tell: tell, log: log}
		g.AddTask("keys", keys.follow)
		tell = nil
	}
	groupings := make(chan health.Grouping, 1)
	if c.superEdge == "" {
		groupings <- health.Grouping{Key: c.unitKey}
		return groupings
	}
	s := &health.SuperEdge{
		Client: client, Namespace: c.superEdge, UnitKey: c.unitKey, Legacy: c.peer.Legacy, File: beside(c.state),
		Group:   func(of health.Grouping) { latest.Put(groupings, of) },
		Keys:    tell,
		Metrics: health.NewSuperEdgeMetrics(r), Log: log,
	}
	g.AddTask("superedge", s.Run)
	return groupings
}

// beside is the file in which SuperEdge's ConfigMaps are kept.
func beside(state string) string {
	if state == "" {
		return ""
	}
	return state + ".superedge"
}
