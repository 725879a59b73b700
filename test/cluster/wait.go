package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// WaitNodes waits until every node is ready, and not for one whose kubelet has
// ended: it does not come back by itself.
func (c *Cluster) WaitNodes(ctx context.Context) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if err := wait.Until(ctx, func() error {
		if err := c.kubeletsRun(); err != nil {
			giveUp(err)
			return err
		}
		return c.NodesReady(ctx)
	}); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}

func (c *Cluster) kubeletsRun() error {
	for _, n := range c.Nodes {
		if !n.Kubelet.Running() {
			return fmt.Errorf("kubelet of %s ended:\n%s", n.Name, n.Kubelet.Log())
		}
	}
	return nil
}

// NodesReady returns an error unless every node is ready and free of taints.
func (c *Cluster) NodesReady(ctx context.Context) error {
	if err := c.kubeletsRun(); err != nil {
		return err
	}
	list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for _, n := range list.Items {
		for _, cond := range n.Status.Conditions {
			if cond.Type == corev1.NodeReady && cond.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
				ready++
			}
		}
	}
	if ready < len(c.Nodes) {
		return fmt.Errorf("%d of %d nodes are ready", ready, len(c.Nodes))
	}
	return nil
}

// WaitPods waits until n pods of a label are ready, and no others are there.
func (c *Cluster) WaitPods(ctx context.Context, namespace, selector string, n int) (pods []corev1.Pod, err error) {
	err = wait.Until(ctx, func() error {
		pods, err = c.ReadyPods(ctx, namespace, selector, n)
		return err
	})
	return pods, err
}

// Pods lists the pods of a label, ready or not.
func (c *Cluster) Pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ReadyPods lists the pods of a label, but for those that are evicted. That there are others than n, or that
// not all are ready, is an error.
func (c *Cluster) ReadyPods(ctx context.Context, namespace, selector string, n int) ([]corev1.Pod, error) {
	list, err := c.Pods(ctx, namespace, selector)
	if err != nil {
		return nil, err
	}
	// The kubelet of a node that died confirms no end of a pod.
	list = slices.DeleteFunc(list, func(p corev1.Pod) bool { return evicted(&p) })
	ready, why := 0, ""
	for i := range list {
		if p := &list[i]; isReady(p) {
			ready++
		} else {
			why = fmt.Sprintf("; %s: %s %s %v", p.Name, p.Status.Phase, p.Status.Message, p.Status.ContainerStatuses)
		}
	}
	if ready != n || len(list) != n {
		return nil, fmt.Errorf("%d of %d pods are ready, %d wanted%s", ready, len(list), n, why)
	}
	return list, nil
}

// evicted reports whether a pod was, as its node was taken for lost.
func evicted(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByTaintManager"
	})
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
