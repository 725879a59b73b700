package kubelet

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// An update of a pod comes while its containers run, which go by what the pod
// was: the race detector says if they look at what is being replaced.
func TestUpdateBesideAContainer(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "app", Image: "nowhere"}}}}
	w := newWorker(&Kubelet{cfg: &Config{}}, pod)
	c := newContainer(w, &pod.Spec.Containers[0], nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		c.run(ctx)
		close(ended)
	}()
	<-w.changed // it has tried once, and goes on
	w.pod = pod.DeepCopy()
	cancel()
	<-ended
	if !c.isDone() {
		t.Error("the container is not done")
	}
}

// What a container makes of its image's command is its own.
func TestCommandOfAnImage(t *testing.T) {
	image := Image{Command: []string{"run", "$(NAME)"}}
	for _, name := range []string{"one", "other"} {
		c := newContainer(newWorker(&Kubelet{cfg: &Config{}}, &corev1.Pod{}), &corev1.Container{}, nil)
		if got := c.argv(image, map[string]string{"NAME": name}); got[1] != name {
			t.Errorf("%s runs %q", name, got)
		}
	}
}

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
