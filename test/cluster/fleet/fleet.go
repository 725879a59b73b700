// Package fleet is Nodes that exist by the API alone: their Leases are renewed, and pods are
// bound to them and called running, without a kubelet. It is for what happens in the cloud to
// many nodes.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Every is how often Leases are renewed.
const Every = 3 * time.Second

// Fleet is some Nodes.
type Fleet struct {
	kube  kubernetes.Interface
	end   context.CancelFunc
	ended chan struct{}

	mu     sync.Mutex
	silent map[string]bool
	all    []string
	errs   []error
}

// Start registers Nodes with labels, and renews their Leases until Stop.
func Start(ctx context.Context, kube kubernetes.Interface, labels map[string]map[string]string) (*Fleet, error) {
	f := &Fleet{kube: kube, ended: make(chan struct{}), silent: map[string]bool{}, all: slices.Sorted(maps.Keys(labels))}
	for _, name := range f.all {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels[name]}}
		live, err := kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("register %s: %w", name, err)
		}
		live.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}}
		if _, err := kube.CoreV1().Nodes().UpdateStatus(ctx, live, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("call %s ready: %w", name, err)
		}
	}
	run, end := context.WithCancel(context.Background())
	f.end = end
	go f.renew(run)
	return f, nil
}

// Silence has nodes renew nothing any more.
func (f *Fleet) Silence(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.silent[name] = true
	}
}

// Stop ends the renewals and removes the Nodes.
func (f *Fleet) Stop(ctx context.Context) error {
	f.end()
	<-f.ended
	errs := f.errs
	for _, name := range f.all {
		if err := f.kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (f *Fleet) renew(ctx context.Context) {
	defer close(f.ended)
	for tick := time.NewTicker(Every); ; {
		for _, name := range f.all {
			f.mu.Lock()
			silent := f.silent[name]
			f.mu.Unlock()
			if silent {
				continue
			}
			if err := f.beat(ctx, name); err != nil && ctx.Err() == nil {
				f.errs = append(f.errs, err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

func (f *Fleet) beat(ctx context.Context, name string) error {
	leases := f.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	l, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To(int32(40)), RenewTime: &now},
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

// Pod binds a pod with labels to a node, and calls it ready at an address.
func Pod(ctx context.Context, kube kubernetes.Interface, node, name, ip string, labels map[string]string, tolerations []corev1.Toleration) (*corev1.Pod, error) {
	pod, err := kube.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: node, Tolerations: tolerations, AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers: []corev1.Container{{Name: "app", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make pod %s: %w", name, err)
	}
	yes := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{yes(corev1.PodInitialized), yes(corev1.PodReady), yes(corev1.ContainersReady), yes(corev1.PodScheduled)},
	}
	pod, err = kube.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("call pod %s ready: %w", name, err)
	}
	return pod, nil
}
