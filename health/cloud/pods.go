package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/shield"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube/typed"
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
// ContainersReady true (MarkPodsNotReady), which a kubelet never does, and readiness gates. One of the
// webhook stays marked: each write would be sent there, and wait.
func readyAgain(p *corev1.Pod, now time.Time) (corev1.PodCondition, bool) {
	ready := condition(p, corev1.PodReady)
	if p.DeletionTimestamp != nil || p.Labels[names.AppLabel] == names.Admission || ready == nil || ready.Status != corev1.ConditionFalse || !isTrue(condition(p, corev1.ContainersReady)) {
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

// marks is how much earlier than its node was lost a pod may have been marked for that.
const marks = 5 * time.Second

// againOf is readyAgain for a node's pods. Of one that was lost when it was found nobody knows here what
// its kubelet said before: what was marked before it was missed stays, for that was by its own word.
func againOf(s *seen) func(*corev1.Pod, time.Time) (corev1.PodCondition, bool) {
	if !s.met {
		return readyAgain
	}
	since := s.since.Add(-marks)
	return func(p *corev1.Pod, now time.Time) (corev1.PodCondition, bool) {
		ready, ok := readyAgain(p, now)
		if was := condition(p, corev1.PodReady); ok && !was.LastTransitionTime.IsZero() && was.LastTransitionTime.Time.Before(since) {
			return corev1.PodCondition{}, false
		}
		return ready, ok
	}
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

// treat has the pods of a lost node looked at. Those of a node that was kept and is so no more
// are marked once it is off the list, and was so for one look: what follows from a mark is
// taken back while it is on it. It need not be voted dead for that, and whoever kept it may be
// one that ended since, so nodes that are lost when this one begins are looked at, too, but for
// those in no unit, which nobody keeps.
func (k *Keeper) treat(ctx context.Context, now time.Time, name string, action shield.Action, was bool) {
	_, owed := k.owed[name]
	switch s := k.world.nodes[name]; {
	case !s.lost():
		delete(k.owed, name)
	case action.Keeps() && s.own:
		k.owed[name] = now
	case action == shield.HoldBound:
		// Before its turn its pods stay as they are: one that ended may have begun with it.
		if k.owed[name] = now; !k.young(now) && k.parts(now, name, s) {
			k.part(ctx, now, name, s)
		}
	case action.Keeps():
		k.owed[name] = now
		k.mend(ctx, now, name, again, againOf(s), func() {})
	case s.unit == "" && !owed && !was && !k.listed[name]: // nobody kept it
	case k.young(now) || (was || k.listed[name]) && now.Before(k.until):
		k.owed[name] = now
	case owed || action == shield.Evict:
		since := k.owed[name]
		k.mend(ctx, now, name, marking, notReady, func() {
			if k.owed[name].Equal(since) { // it was not kept again meanwhile
				delete(k.owed, name)
			}
		})
	}
}

// parts reports whether pods of a node are to go that are not bound to its unit: of each unit it
// begins with one node in ten seconds.
func (k *Keeper) parts(now time.Time, name string, s *seen) bool {
	if !k.parted[name] && k.parting.Take(now, s.unit, len(k.world.units[s.unit].nodes), 0) {
		k.parted[name] = true
	}
	return k.parted[name]
}

// part has pods of a node go that are not bound to its unit, and the others stay.
func (k *Keeper) part(ctx context.Context, now time.Time, name string, s *seen) {
	unit, held := s.unit, now.Sub(s.past.Since)-k.cfg.Shield.Autonomy
	kept := againOf(s)
	wanted := func(p *corev1.Pod, now time.Time) (corev1.PodCondition, bool) {
		if marked, _ := goes(p, k.cfg.UnitKey, unit, held); marked {
			return notReady(p, now)
		}
		return kept(p, now)
	}
	f := k.freshness(name, parting)
	k.pods.begin(ctx, now, name, parting, func(ctx context.Context) error {
		failed := k.each(ctx, now, name, f, wanted)
		err := k.cluster.PodsOn(ctx, name, f, func(p *corev1.Pod) error {
			if _, evicted := goes(p, k.cfg.UnitKey, unit, held); !evicted {
				return nil
			}
			err := k.cluster.Evict(ctx, p)
			k.metrics.wrote("eviction", err)
			failed = cmp.Or(failed, err)
			return ctx.Err()
		})
		return cmp.Or(err, failed)
	}, func() {})
}

// errChanged says that somebody else wrote a pod meanwhile.
var errChanged = errors.New("a pod is another one by now")

// What is done for pods of a node.
const (
	again   = "ready again"
	marking = "not ready"
	parting = "those that are not bound go"
)

// freshness is how new a node's pods are to be. What is done again and again, for as long as a node
// is kept, takes what the API server has at hand, and sees at the next time what that lacks; what
// is done once takes none for another.
func (k *Keeper) freshness(node, kind string) typed.Freshness {
	if kind != marking && k.pods.did(node, kind) {
		return typed.Cached
	}
	return typed.Now
}

// mend has the pods of a node made as they are wanted; done is called once all are.
func (k *Keeper) mend(ctx context.Context, now time.Time, name, kind string, wanted func(*corev1.Pod, time.Time) (corev1.PodCondition, bool), done func()) {
	f := k.freshness(name, kind)
	k.pods.begin(ctx, now, name, kind, func(ctx context.Context) error { return k.each(ctx, now, name, f, wanted) }, done)
}

// each makes the pods of a node as they are wanted, all of them, though it fails for some.
func (k *Keeper) each(ctx context.Context, now time.Time, name string, f typed.Freshness, wanted func(*corev1.Pod, time.Time) (corev1.PodCondition, bool)) error {
	n := 0
	var failed error
	err := k.cluster.PodsOn(ctx, name, f, func(p *corev1.Pod) error {
		ready, ok := wanted(p, now)
		if !ok {
			return nil
		}
		err := k.cluster.SetReady(ctx, p, ready)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsConflict(err) || apierrors.IsInvalid(err):
			failed = cmp.Or(failed, fmt.Errorf("%w: %w", errChanged, err))
			return nil
		case err != nil:
			failed = cmp.Or(failed, err)
		default:
			n++
		}
		k.metrics.wrote("pod", err)
		return ctx.Err()
	})
	if n > 0 {
		k.cfg.Log.Info("mended the pods of a lost node", obs.KeyNode, name, obs.KeyMended, n)
	}
	return cmp.Or(err, failed)
}
