package soak

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/topology"
)

// steadyService is the Service of the steady app.
var steadyService = topology.ObjectKey{Namespace: "default", Name: "steady"}

// hearWords begins to note, for each node, who says what of the steady app's pods
// in its unit.
func (s *Soak) hearWords() {
	pods := map[string]*model.Readiness{}
	for _, node := range s.world.Nodes() {
		pods[node] = &model.Readiness{}
	}
	for _, node := range s.world.Nodes() {
		u := &model.Unserved{Agent: &model.Readiness{}, Cloud: &model.Readiness{}}
		for _, n := range s.unit(s.world.UnitOf(node)) {
			u.Pods = append(u.Pods, pods[n])
		}
		s.unserved[node] = u
	}
	s.said = pods
}

// kubeletSays notes a pod's own word. What the controller manager writes about a
// silent node's pods is their readiness alone, and not that of their containers.
func (s *Soak) kubeletSays(at time.Time, p *corev1.Pod) {
	if said := s.said[p.Spec.NodeName]; said != nil && p.Labels["app"] == steadyService.Name {
		said.Set(at, slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.ContainersReady && c.Status == corev1.ConditionTrue
		}))
	}
}

func (s *Soak) cloudSays(at time.Time) {
	list := s.history.Slices(steadyService)
	for node, u := range s.unserved {
		u.Cloud.Set(at, model.AnyReady(list, s.unit(s.world.UnitOf(node))))
	}
}

func (s *Soak) agentSays(at time.Time, node string, snap *topology.Snapshot) {
	var list []*topology.Slice
	if e, _ := snap.Services.Get(steadyService); e != nil {
		list = e.Slices
	}
	s.unserved[node].Agent.Set(at, model.AnyReady(list, s.unit(s.world.UnitOf(node))))
}

// mayBeUnserved reports whether a dial of the steady app may have failed because
// its pods in the unit were not ready, by their own word, when that was last
// heard of.
func (s *Soak) mayBeUnserved(d *dial) bool {
	since, slack := s.since(d.node, d.began), restored
	if s.troubles.Any(cloud, model.Deaf, since.Add(-longLag), d.ended) {
		slack = longLag
	}
	return s.unserved[d.node].May(since, d.began.Add(-grace), d.ended, slack)
}
