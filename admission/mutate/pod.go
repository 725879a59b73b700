package mutate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
)

// Pod takes back the mark that the pod's node is lost: the whole condition Ready is as it was,
// with its times, so that nothing is written at all.
//
// It is looked at in updates of pods/status by Writers(Pods).
func Pod(old, next *corev1.Pod, s Shield) (Patch, Reason) {
	was, is := condition(old, corev1.PodReady), condition(next, corev1.PodReady)
	switch {
	case !holds(old, was) || is < 0 || next.Status.Conditions[is].Status != corev1.ConditionFalse:
		return nil, OtherChange
	case next.Labels[names.AppLabel] == names.Admission: // nobody is to be sent to one that the cloud does not hear
		return nil, OtherChange
	case old.DeletionTimestamp != nil || next.DeletionTimestamp != nil:
		return nil, Terminating
	case !holds(old, condition(old, corev1.ContainersReady)) || !holds(next, condition(next, corev1.ContainersReady)):
		return nil, OwnWord
	}
	// The stored node, for a write of the status changes nothing of the spec.
	if why := s.refuses(old.Spec.NodeName, next.Status.Conditions[is].LastTransitionTime.Time); why != "" {
		return nil, why
	}
	p := Patch{{Op: "replace", Path: fmt.Sprintf("/status/conditions/%d", is), Value: old.Status.Conditions[was]}}
	left := next.Status
	left.Conditions = slices.Clone(left.Conditions)
	left.Conditions[is] = old.Status.Conditions[was]
	if same(old.Status, left) && sameMeta(old.ObjectMeta, next.ObjectMeta) {
		p = append(p, bookkeeping(old.ObjectMeta, next.ObjectMeta)...)
	}
	return p, Shielded
}

// condition is the index of a pod's condition, less than 0 where there is none.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) int {
	return single(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
}

// holds reports whether a condition is there and true.
func holds(pod *corev1.Pod, i int) bool {
	return i >= 0 && pod.Status.Conditions[i].Status == corev1.ConditionTrue
}
