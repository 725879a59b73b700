package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// status is what the pod's processes say.
func (w *worker) status() corev1.PodStatus {
	s := corev1.PodStatus{
		StartTime: &w.started, QOSClass: w.pod.Status.QOSClass, Phase: corev1.PodPending,
		HostIP: w.k.cfg.IPs[0], ObservedGeneration: w.pod.Generation,
	}
	for _, ip := range w.k.cfg.IPs {
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
	}
	for _, ip := range w.facts.ips {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(w.facts.ips) > 0 {
		s.PodIP = w.facts.ips[0]
	}
	if w.failure != "" {
		s.Message, s.Reason = w.failure, "FailedSetUp"
	}
	initialized := true
	for _, c := range w.init {
		cs := c.status()
		s.InitContainerStatuses = append(s.InitContainerStatuses, cs)
		initialized = initialized && cs.State.Terminated != nil && cs.State.Terminated.ExitCode == 0
	}
	ready, running, failed, ended := len(w.main) > 0, false, false, len(w.main) > 0
	for _, c := range w.main {
		cs := c.status()
		s.ContainerStatuses = append(s.ContainerStatuses, cs)
		ready = ready && cs.Ready
		running = running || cs.State.Running != nil || cs.RestartCount > 0
		ended = ended && cs.State.Terminated != nil && c.isDone()
		failed = failed || cs.State.Terminated != nil && cs.State.Terminated.ExitCode != 0
	}
	switch {
	case ended && failed:
		s.Phase = corev1.PodFailed
	case ended:
		s.Phase = corev1.PodSucceeded
	case running:
		s.Phase = corev1.PodRunning
	}
	s.Conditions = []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, len(w.facts.ips) > 0),
		condition(corev1.PodInitialized, initialized && len(w.main) > 0),
		condition(corev1.ContainersReady, ready),
		condition(corev1.PodReady, ready && w.gatesOpen()),
		honouredCondition(w.pod),
	}
	for i := range s.Conditions {
		s.Conditions[i].ObservedGeneration = w.pod.Generation
		s.Conditions[i].LastTransitionTime = w.started
	}
	return s
}

// gatesOpen reports whether every readiness gate is true.
func (w *worker) gatesOpen() bool {
	for _, gate := range w.pod.Spec.ReadinessGates {
		open := false
		for _, c := range w.pod.Status.Conditions {
			open = open || c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		}
		if !open {
			return false
		}
	}
	return true
}

func condition(t corev1.PodConditionType, ok bool) corev1.PodCondition {
	c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse}
	if ok {
		c.Status = corev1.ConditionTrue
	}
	return c
}

// status is what the container's process says.
func (c *container) status() corev1.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: "standin://" + c.spec.Image, State: *c.state.DeepCopy(),
		LastTerminationState: *c.lastState.DeepCopy(), RestartCount: c.restarts,
		Ready: c.state.Running != nil && c.ready, Started: ptr.To(c.state.Running != nil),
	}
}

func (c *container) set(state corev1.ContainerState) {
	c.mu.Lock()
	if c.state.Terminated != nil {
		c.lastState = corev1.ContainerState{Terminated: c.state.Terminated}
	}
	c.state = state
	c.mu.Unlock()
	c.w.notify()
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func runningSince(t metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: t}}
}
