package kubelet

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// register creates the Node, or takes over the one that is there.
func (k *Kubelet) register(ctx context.Context) error {
	labels := map[string]string{
		"kubernetes.io/hostname": k.cfg.Node, "kubernetes.io/os": "linux", "kubernetes.io/arch": runtime.GOARCH,
	}
	maps.Copy(labels, k.cfg.Labels)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.cfg.Node, Labels: labels},
		Spec:       corev1.NodeSpec{PodCIDRs: k.cfg.PodCIDRs, PodCIDR: k.cfg.PodCIDRs[0]},
	}
	var err error
	retry(ctx, func() error {
		_, err = k.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil // its labels are the cluster's to change
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	retry(ctx, func() error { return k.nodeStatus(ctx) })
	return nil
}

// heartbeat calls f at once and then every so often, until ctx ends. One that
// hangs does not hold up the others.
func (k *Kubelet) heartbeat(ctx context.Context, what string, every time.Duration, f func(ctx context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("could not report to the API server", "what", what, "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (k *Kubelet) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	leases := k.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now, lasts := metav1.NowMicro(), int32(leaseLasts)
	l, err := leases.Get(ctx, k.cfg.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: k.cfg.Node, Namespace: corev1.NamespaceNodeLease},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &k.cfg.Node, LeaseDurationSeconds: &lasts, RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	l.Spec.RenewTime = &now
	_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
	return err
}

func (k *Kubelet) nodeStatus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node, err := k.kube.CoreV1().Nodes().Get(ctx, k.cfg.Node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "stand-in", LastHeartbeatTime: now, LastTransitionTime: now}
	for _, c := range node.Status.Conditions {
		if c.Type == ready.Type && c.Status == ready.Status {
			ready.LastTransitionTime = c.LastTransitionTime
		}
	}
	node.Status.Conditions = []corev1.NodeCondition{ready}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("240"),
	}
	node.Status.Capacity, node.Status.Allocatable = room, room
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: k.cfg.Node}}
	for _, ip := range k.cfg.IPs {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	node.Status.NodeInfo = corev1.NodeSystemInfo{
		KubeletVersion: "v1.36.3-standin", OperatingSystem: "linux", Architecture: runtime.GOARCH, ContainerRuntimeVersion: "standin://1",
	}
	_, err = k.kube.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}
