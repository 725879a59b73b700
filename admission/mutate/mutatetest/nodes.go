package mutatetest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/admission/mutate"
)

// node is the lost node with taints. One of its own keeps every pod away.
func node(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: Lost, Labels: map[string]string{"unit": "a"}},
		Spec:       corev1.NodeSpec{Taints: append([]corev1.Taint{{Key: "shield", Effect: corev1.TaintEffectNoSchedule}}, taints...)},
	}
}

// taint adds one, as the controller manager does: at the end.
func taint(add corev1.Taint) func(Object) {
	return change(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, add) })
}

func nodes(now time.Time) []Case {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	lost := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}
	undated := corev1.Taint{Key: lost.Key, Effect: lost.Effect}
	noSchedule := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &at}
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}
	return []Case{
		{Name: "the taint", Old: node(), Change: taint(lost), Want: mutate.Shielded, Nothing: true},
		{Name: "the taint, by a manager without accounts", Old: node(), Change: taint(lost), By: "system:kube-controller-manager", Want: mutate.Shielded, Nothing: true},
		{Name: "the taint, by somebody", Old: node(), Change: taint(lost), By: "somebody"},
		{Name: "the taint after others", Old: node(noSchedule), Change: taint(lost), Want: mutate.Shielded, Nothing: true},
		{Name: "the taint without a time", Old: node(), Change: taint(undated), Want: mutate.Shielded, Nothing: true},
		{Name: "both taints", Old: node(), Change: change(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, lost, noSchedule) }), Want: mutate.Shielded},
		{Name: "the taint and a label", Old: node(), Change: change(func(n *corev1.Node) {
			n.Labels["unit"] = "b"
			n.Spec.Taints = append(n.Spec.Taints, lost)
		}), Want: mutate.Shielded},
		{Name: "the taint in the place of another", Old: node(noSchedule), Change: change(func(n *corev1.Node) { n.Spec.Taints[1] = lost }), Want: mutate.Shielded},
		{Name: "no shield", Old: node(), Change: taint(lost), Shield: map[string]string{}, Want: mutate.Unshielded},
		{Name: "another is shielded", Old: node(), Change: taint(lost), Shield: elsewhere(now), Want: mutate.Unshielded},
		{Name: "until no time", Old: node(), Change: taint(lost), Shield: map[string]string{Lost: "soon"}, Want: mutate.Unshielded},
		{Name: "over", Old: node(), Change: taint(lost), Shield: over(now), Want: mutate.Expired},
		{Name: "over, and the taint without a time", Old: node(), Change: taint(undated), Shield: over(now), Want: mutate.Expired},
		{Name: "over since the very second", Old: node(), Change: taint(lost), Shield: map[string]string{Lost: stamp(now)}, Want: mutate.Expired},
		{Name: "tainted before", Old: node(lost), Change: change(func(n *corev1.Node) { n.Labels["unit"] = "b" }), Want: mutate.OtherChange},
		{Name: "the taint goes", Old: node(lost), Change: change(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] }), Want: mutate.OtherChange},
		{Name: "not ready by its kubelet", Old: node(), Change: taint(notReady), Want: mutate.OtherChange},
		{Name: "not ready by its kubelet, and then lost", Old: node(notReady), Change: taint(lost), Want: mutate.OwnWord},
		{Name: "NoSchedule alone", Old: node(), Change: taint(noSchedule), Want: mutate.OtherChange},
	}
}
