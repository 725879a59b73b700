package cloud

import (
	"context"
	"fmt"
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

// given are how many nodes have each of the taints, of each unit and of the cluster, or are
// about to, whoever gave them: it is so, too, for who has just begun.
type given struct {
	evicted, unseen map[string]int // by unit
	all             int            // unseen ones
	over            string         // who is unseen and had no room; "" for nobody
}

func (k *Keeper) given() *given {
	g := &given{evicted: map[string]int{}, unseen: map[string]int{}}
	for name, s := range k.world.nodes {
		if k.tainted[name] || find(s.taints, evicting) >= 0 {
			g.evicted[s.unit]++
		}
		if k.unseen[name] || find(s.taints, unseen) >= 0 {
			g.unseen[s.unit]++
			g.all++
		}
	}
	return g
}

// taint has a node given the taints that follow, and those taken away that follow no more.
// Where a node is kept its pods are not to be evicted either, whoever began it: the controller
// manager adds the taint once, and admission takes it back only while the node is on the list. Who
// was not ready by its own word keeps what took the place of the taint for that, as admission has it.
func (k *Keeper) taint(ctx context.Context, now time.Time, name string, s *seen, action shield.Action, g *given) {
	if action != shield.Evict {
		delete(k.evicts, name)
		delete(k.tainted, name)
	}
	has := find(s.taints, evicting) >= 0
	evict := action == shield.Evict && !has && k.gives(now, name, s, g)
	spare := action.Keeps() && s.lost() && has && !s.own
	if evict {
		k.tainted[name] = true
	}
	unlike := k.suspects(now, name, s, action, g) != (find(s.taints, unseen) >= 0)
	if !evict && !spare && !unlike {
		return
	}
	suspect := k.unseen[name]
	kind := fmt.Sprint(evict, spare, suspect)
	k.taints.begin(ctx, now, name, kind, func(ctx context.Context) error {
		err := k.cluster.EditTaints(ctx, name, s.uid, func(n *corev1.Node) []corev1.Taint {
			list := with(n.Spec.Taints, unseen, suspect, now)
			if spare || evict && keepNode("")(n).ready == corev1.ConditionUnknown { // it may be back by now
				list = with(list, evicting, evict, now)
			}
			return list
		})
		k.metrics.wrote("taint", err)
		return err
	}, func() {})
}

// suspects reports whether a node is to have our own taint. Who has it keeps it until it is
// known that it need not: a controller that begins anew takes nothing away that stands.
func (k *Keeper) suspects(now time.Time, name string, s *seen, action shield.Action, g *given) bool {
	has := find(s.taints, unseen) >= 0
	vote, _ := s.past.Stands()
	switch {
	case action == shield.Suspect && (has || k.unseen[name]):
		k.unseen[name] = true
	case action == shield.Suspect && shield.MaySuspect(g.unseen[s.unit], len(k.world.units[s.unit].nodes), g.all, len(k.world.nodes)):
		k.unseen[name] = true
		g.unseen[s.unit]++
		g.all++
	case action == shield.Suspect:
		g.over = name
	case has && !s.lost() && (k.young(now) || vote.Verdict == shield.Dead && vote.Found && now.Sub(vote.Voted) <= k.cfg.Shield.Fresh):
		k.unseen[name] = true
	default:
		delete(k.unseen, name)
	}
	return k.unseen[name]
}

// tellOver tells of nodes that would get nothing new, and are more than may.
func (k *Keeper) tellOver(g *given) {
	if over := g.over != ""; over != k.over {
		if k.over = over; over {
			k.cfg.Log.Warn("the cloud hears nodes that their units say are dead, and they are half of a unit or a tenth of the cluster: no more of them are tainted", obs.KeyNode, g.over)
		}
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
func (k *Keeper) gives(now time.Time, name string, s *seen, g *given) bool {
	since, ok := k.evicts[name]
	if !ok {
		k.evicts[name] = now
		return false
	}
	if k.tainted[name] {
		return true // it was not written
	}
	return now.Sub(since) >= k.cfg.Grace && k.budget.Take(now, s.unit, len(k.world.units[s.unit].nodes), g.evicted[s.unit])
}
