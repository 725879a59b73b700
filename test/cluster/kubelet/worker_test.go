package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What the controller manager writes about a silent node's pods is said
// otherwise again; conditions of others are theirs.
func TestOverruled(t *testing.T) {
	ready := func(s corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodReady, Status: s}
	}
	foreign := corev1.PodCondition{Type: "example.org/gate", Status: corev1.ConditionTrue}
	said := []corev1.PodCondition{condition(corev1.PodInitialized, true), ready(corev1.ConditionTrue)}
	for what, tc := range map[string]struct {
		now  []corev1.PodCondition
		want bool
	}{
		"as it was said":         {said, false},
		"nothing yet":            {nil, false},
		"a condition of others":  {append([]corev1.PodCondition{foreign}, said...), false},
		"marked as not ready":    {[]corev1.PodCondition{ready(corev1.ConditionFalse)}, true},
		"marked, beside another": {[]corev1.PodCondition{foreign, ready(corev1.ConditionFalse)}, true},
	} {
		if got := overruled(said, tc.now); got != tc.want {
			t.Errorf("%s: %v, want %v", what, got, tc.want)
		}
	}
}
