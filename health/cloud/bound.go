package cloud

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// bound reports whether a pod can run in its unit alone, or on its node alone: by its selector or
// its required affinity, and not by what its volumes ask for, which nobody tells here. Pods of
// grids are bound to their unit, and those of DaemonSets to their node.
func bound(p *corev1.Pod, key, unit string) bool {
	if v, ok := p.Spec.NodeSelector[key]; ok && v == unit || p.Spec.NodeSelector[corev1.LabelHostname] != "" {
		return true
	}
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return !binds(t, key, unit) })
}

// binds reports whether a term is met in the unit alone, or on one node.
func binds(t corev1.NodeSelectorTerm, key, unit string) bool {
	one := func(r corev1.NodeSelectorRequirement) bool {
		return r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
	}
	return slices.ContainsFunc(t.MatchFields, one) || slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
		return one(r) && (r.Key == key && r.Values[0] == unit || r.Key == corev1.LabelHostname)
	})
}

// forever is how long a pod tolerates what it says nothing of the end of.
const forever = time.Duration(math.MaxInt64)

// tolerates is for how long a pod stays on a node with the taint that evicts: the least of what it
// says, as Kubernetes' eviction has it.
func tolerates(p *corev1.Pod) time.Duration {
	least, some := forever, false
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		key := t.Key == evicting.Key || t.Key == "" && t.Operator == corev1.TolerationOpExists
		if !key || t.Effect != "" && t.Effect != evicting.Effect || t.Operator != corev1.TolerationOpExists && t.Value != "" {
			continue
		}
		if some = true; t.TolerationSeconds != nil {
			least = min(least, time.Duration(min(max(*t.TolerationSeconds, 0), int64(forever/time.Second)))*time.Second)
		}
	}
	if !some {
		return 0
	}
	return least
}

// goes reports whether a pod of a lost node, of a unit that is held for those that are bound to it,
// is to go, and whether its time on the node is over; held is for how long that has been so.
func goes(p *corev1.Pod, key, unit string, held time.Duration) (marked, evicted bool) {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	stay := tolerates(p)
	if mirror || p.DeletionTimestamp != nil || stay == forever || bound(p, key, unit) {
		return false, false
	}
	return true, held >= stay
}
