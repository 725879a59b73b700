package mutate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Node takes back the taint unreachable:NoExecute, which evicts the node's pods. The one with
// NoSchedule stays, so that no pod is sent there, and so do the conditions.
//
// It is looked at in updates of nodes by Writers(Nodes).
func Node(old, next *corev1.Node, s Shield) (Patch, Reason) {
	i := single(next.Spec.Taints, evicts(corev1.TaintNodeUnreachable))
	switch {
	case i < 0 || slices.ContainsFunc(old.Spec.Taints, evicts(corev1.TaintNodeUnreachable)):
		return nil, OtherChange
	case slices.ContainsFunc(old.Spec.Taints, evicts(corev1.TaintNodeNotReady)):
		return nil, OwnWord
	}
	at := written(next.ObjectMeta)
	if t := next.Spec.Taints[i].TimeAdded; t != nil {
		at = t.Time
	}
	if why := s.refuses(next.Name, at); why != "" {
		return nil, why
	}
	p := Patch{{Op: "remove", Path: fmt.Sprintf("/spec/taints/%d", i)}}
	left := next.Spec
	left.Taints = slices.Delete(slices.Clone(left.Taints), i, i+1)
	if same(old.Spec, left) && sameMeta(old.ObjectMeta, next.ObjectMeta) {
		p = append(p, bookkeeping(old.ObjectMeta, next.ObjectMeta)...)
	}
	return p, Shielded
}

// evicts finds a taint with NoExecute.
func evicts(key string) func(corev1.Taint) bool {
	return func(t corev1.Taint) bool { return t.Key == key && t.Effect == corev1.TaintEffectNoExecute }
}

// single is the index of the only one that is meant, less than 0 where there is none, or
// more than one, which the API server will refuse.
func single[T any](list []T, meant func(T) bool) int {
	i := slices.IndexFunc(list, meant)
	if i >= 0 && slices.ContainsFunc(list[i+1:], meant) {
		return -1
	}
	return i
}
