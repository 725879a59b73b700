package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Until calls f until it succeeds or ctx ends.
func Until(ctx context.Context, f func() error) error {
	var last error
	for {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // and not what the end of ctx made of it
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		}
	}
}

// WaitNodes waits until every node is ready.
func (c *Cluster) WaitNodes(ctx context.Context) error {
	return Until(ctx, func() error {
		for _, n := range c.Nodes {
			if !n.Kubelet.Running() {
				return fmt.Errorf("kubelet of %s ended:\n%s", n.Name, n.Kubelet.Log())
			}
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
	})
}

// WaitPods waits until n pods of a label are ready, and no others are there.
func (c *Cluster) WaitPods(ctx context.Context, namespace, selector string, n int) ([]corev1.Pod, error) {
	var ready []corev1.Pod
	err := Until(ctx, func() error {
		list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		ready = ready[:0]
		why := ""
		for _, p := range list.Items {
			ok := false
			for _, cond := range p.Status.Conditions {
				ok = ok || cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue
			}
			if ok {
				ready = append(ready, p)
			} else {
				why = fmt.Sprintf("%s: %s %s %v", p.Name, p.Status.Phase, p.Status.Message, p.Status.ContainerStatuses)
			}
		}
		if len(ready) != n || len(list.Items) != n {
			return fmt.Errorf("%d of %d pods, %d wanted; %s", len(ready), len(list.Items), n, why)
		}
		return nil
	})
	return ready, err
}
