package cloud

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/shield"
	"github.com/gridmesh/gridmesh/internal/obs"
)

var (
	// evicting is the taint that the controller manager puts on a lost node, and takes away
	// when the node is back.
	evicting = corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
	// unseen is our own, on a node that its unit does not see.
	unseen = corev1.Taint{Key: names.UnseenTaint, Effect: corev1.TaintEffectNoSchedule}
)

func find(list []corev1.Taint, t corev1.Taint) int {
	return slices.IndexFunc(list, func(other corev1.Taint) bool { return other.MatchTaint(&t) })
}

// taints gives a node the taints that follow, and takes away our own.
func (k *Keeper) taints(ctx context.Context, now time.Time, name string, s *seen, action shield.Action, given map[string]int) {
	if action != shield.Evict {
		delete(k.evicts, name)
		delete(k.tainted, name)
	}
	evict := action == shield.Evict && find(s.taints, evicting) < 0 && k.gives(now, name, s, given)
	suspect := action == shield.Suspect
	if !evict && suspect == (find(s.taints, unseen) >= 0) {
		return
	}
	if evict {
		k.tainted[name] = true
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := k.cluster.EditTaints(ctx, name, s.uid, func(list []corev1.Taint) []corev1.Taint {
		list = with(list, unseen, suspect, now)
		if evict {
			list = with(list, evicting, true, now)
		}
		return list
	})
	k.metrics.wrote("taint", err)
	if err != nil {
		k.cfg.Log.Debug("a node's taints were not written; it is tried again", obs.KeyNode, name, obs.KeyErr, err)
	}
}

// with are taints with one, or without it.
func with(list []corev1.Taint, t corev1.Taint, wanted bool, now time.Time) []corev1.Taint {
	switch i := find(list, t); {
	case i >= 0 && !wanted:
		return slices.Delete(list, i, i+1)
	case i < 0 && wanted:
		return append(list, stamped(t, now))
	}
	return list
}

func stamped(t corev1.Taint, now time.Time) corev1.Taint {
	at := metav1.NewTime(now)
	t.TimeAdded = &at
	return t
}

// gives reports whether a node that is voted dead is to be tainted here: the controller
// manager had its time, and there is a budget.
func (k *Keeper) gives(now time.Time, name string, s *seen, given map[string]int) bool {
	since, ok := k.evicts[name]
	if !ok {
		k.evicts[name] = now
		return false
	}
	if k.tainted[name] {
		return true // it was not written
	}
	return now.Sub(since) >= k.cfg.Grace && k.budget.Take(now, s.unit, len(k.world.units[s.unit].nodes), given[s.unit])
}
