package mutatetest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/api/names"
)

// pod is a ready one on a node.
func pod(name, node string, now time.Time) *corev1.Pod {
	at := metav1.NewTime(now.UTC().Truncate(time.Second).Add(-time.Hour))
	holds := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: map[string]string{"app": "shield"}},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: ptr.To(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "app", Image: "none",
				Ports: []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 443}, {ContainerPort: 8080}},
			}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "192.0.2.1", PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}}, StartTime: &at,
			Conditions: []corev1.PodCondition{
				holds(corev1.PodInitialized), holds(corev1.PodReady), holds(corev1.ContainersReady), holds(corev1.PodScheduled),
			},
		},
	}
}

// conditioned is a pod with some conditions changed.
func conditioned(p *corev1.Pod, status corev1.ConditionStatus, at time.Time, kinds ...corev1.PodConditionType) *corev1.Pod {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		for _, kind := range kinds {
			if c.Type == kind {
				c.Status, c.LastTransitionTime = status, metav1.NewTime(at.UTC().Truncate(time.Second))
			}
		}
	}
	return p
}

// terminating is a pod that is deleted.
func terminating(p *corev1.Pod, now time.Time) *corev1.Pod {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, ptr.To[int64](30)
	return p
}

// webhook is a pod of gridmesh-admission.
func webhook(p *corev1.Pod) *corev1.Pod {
	p.Labels[names.AppLabel] = names.Admission
	return p
}

func pods(now time.Time) []Case {
	sets := func(status corev1.ConditionStatus, kinds ...corev1.PodConditionType) func(Object) {
		return change(func(p *corev1.Pod) { conditioned(p, status, now, kinds...) })
	}
	mark := sets(corev1.ConditionFalse, corev1.PodReady)
	fresh := func() *corev1.Pod { return pod("web", Lost, now) }
	return []Case{
		{Name: "the mark", Old: fresh(), Change: mark, Want: mutate.Shielded, Nothing: true},
		{Name: "the mark, by a manager without accounts", Old: fresh(), Change: mark, By: "system:kube-controller-manager", Want: mutate.Shielded, Nothing: true},
		{Name: "the mark of a webhook", Old: webhook(fresh()), Change: mark, Want: mutate.OtherChange},
		{Name: "the mark, by its kubelet", Old: fresh(), Change: mark, By: "system:node:" + Lost},
		{Name: "the mark, by another controller", Old: fresh(), Change: mark, By: "system:serviceaccount:kube-system:endpointslice-controller"},
		{Name: "the mark and another change", Old: fresh(), Change: change(func(p *corev1.Pod) {
			mark(p)
			p.Status.Message = "lost"
		}), Want: mutate.Shielded},
		{Name: "the mark, and conditions in another order", Old: fresh(), Change: change(func(p *corev1.Pod) {
			mark(p)
			p.Status.Conditions[0], p.Status.Conditions[1] = p.Status.Conditions[1], p.Status.Conditions[0]
		}), Want: mutate.Shielded},
		{Name: "the mark of a pod elsewhere", Old: pod("web", Other, now), Change: mark, Want: mutate.Unshielded},
		{Name: "no shield", Old: fresh(), Change: mark, Shield: map[string]string{}, Want: mutate.Unshielded},
		{Name: "until no time", Old: fresh(), Change: mark, Shield: map[string]string{Lost: "soon"}, Want: mutate.Unshielded},
		{Name: "over", Old: fresh(), Change: mark, Shield: over(now), Want: mutate.Expired},
		{Name: "not ready by its kubelet", Old: fresh(), Change: sets(corev1.ConditionFalse, corev1.PodReady, corev1.ContainersReady), Want: mutate.OwnWord},
		{Name: "not ready by its kubelet before", Old: conditioned(fresh(), corev1.ConditionFalse, now, corev1.PodReady, corev1.ContainersReady), Change: change(func(p *corev1.Pod) {
			mark(p)
			p.Status.Message = "lost"
		}), Want: mutate.OtherChange},
		{Name: "ready though its containers were not", Old: conditioned(fresh(), corev1.ConditionFalse, now, corev1.ContainersReady), Change: change(func(p *corev1.Pod) {
			mark(p)
			conditioned(p, corev1.ConditionTrue, now, corev1.ContainersReady)
		}), Want: mutate.OwnWord},
		{Name: "marked before", Old: conditioned(fresh(), corev1.ConditionFalse, now, corev1.PodReady), Change: change(func(p *corev1.Pod) { p.Status.Message = "lost" }), Want: mutate.OtherChange},
		{Name: "ready again", Old: conditioned(fresh(), corev1.ConditionFalse, now, corev1.PodReady), Change: sets(corev1.ConditionTrue, corev1.PodReady), Want: mutate.OtherChange},
		{Name: "Ready unknown", Old: fresh(), Change: sets(corev1.ConditionUnknown, corev1.PodReady), Want: mutate.OtherChange},
		{Name: "terminating", Old: terminating(fresh(), now), Change: mark, Want: mutate.Terminating},
	}
}
