package cloud

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// condition is a pod's, or nil.
func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	if i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind }); i >= 0 {
		return &p.Status.Conditions[i]
	}
	return nil
}

func isTrue(c *corev1.PodCondition) bool { return c != nil && c.Status == corev1.ConditionTrue }

// readyAgain is the condition Ready of a pod that the controller manager marked: it leaves
// ContainersReady true (MarkPodsNotReady), which a kubelet never does, and readiness gates.
func readyAgain(p *corev1.Pod, now time.Time) (corev1.PodCondition, bool) {
	ready := condition(p, corev1.PodReady)
	if p.DeletionTimestamp != nil || ready == nil || ready.Status != corev1.ConditionFalse || !isTrue(condition(p, corev1.ContainersReady)) {
		return corev1.PodCondition{}, false
	}
	for _, gate := range p.Spec.ReadinessGates {
		if !isTrue(condition(p, gate.ConditionType)) {
			return corev1.PodCondition{}, false
		}
	}
	again := *ready
	again.Status, again.LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(now)
	return again, true
}

// notReady is the mark of the controller manager, which it makes once, when it takes a node
// for lost: on pods that were kept from it then it is made here.
func notReady(p *corev1.Pod, now time.Time) (corev1.PodCondition, bool) {
	ready := condition(p, corev1.PodReady)
	if !isTrue(ready) {
		return corev1.PodCondition{}, false
	}
	marked := *ready
	marked.Status, marked.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(now)
	return marked, true
}

// mend has the pods of a node looked at, now and then, of a few nodes at once.
func (k *Keeper) mend(ctx context.Context, now time.Time, name string, wanted func(*corev1.Pod, time.Time) (corev1.PodCondition, bool)) {
	if now.Sub(k.mended[name]) < k.cfg.Mend {
		return
	}
	select {
	case k.room <- struct{}{}:
	default:
		return // at the next look
	}
	k.mended[name] = now
	k.work.Go(func() {
		defer func() { <-k.room }()
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		n := 0
		err := k.cluster.PodsOn(ctx, name, func(p *corev1.Pod) error {
			ready, ok := wanted(p, now)
			if !ok {
				return nil
			}
			err := k.cluster.SetReady(ctx, p, ready)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) { // it is another one by now
				return nil
			}
			k.metrics.wrote("pod", err)
			n++
			return err
		})
		switch {
		case err != nil && ctx.Err() == nil:
			k.cfg.Log.Warn("pods of a lost node were not mended; it is tried again", obs.KeyNode, name, obs.KeyErr, err)
		case n > 0:
			k.cfg.Log.Info("mended the pods of a lost node", obs.KeyNode, name, obs.KeyMended, n)
		}
	})
}
