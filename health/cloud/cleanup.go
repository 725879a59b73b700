package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/shield"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// ErrVoting says that node health is at work, and would make again what is taken away.
var ErrVoting = errors.New("node health is at work")

// Remains is a cluster from which node health is taken away.
type Remains interface {
	// Leases are those of units.
	Leases(ctx context.Context) ([]coordinationv1.Lease, error)
	// TakeList deletes the list of shielded nodes, and the table of units, and returns whom
	// the list had.
	TakeList(ctx context.Context) ([]string, error)
	EachNode(ctx context.Context, each func(*corev1.Node) error) error
	PodsOn(ctx context.Context, node string, f typed.Freshness, each func(*corev1.Pod) error) error
	SetReady(ctx context.Context, pod *corev1.Pod, ready corev1.PodCondition) error
	EditTaints(ctx context.Context, node, uid string, edit func(*corev1.Node) []corev1.Taint) error
	Annotate(ctx context.Context, node, uid string, annotations map[string]*string) error
	DeleteLease(ctx context.Context, l *coordinationv1.Lease) error
}

// Cleaned is how much was taken away.
type Cleaned struct{ Listed, Annotated, Untainted, Marked, Leases int }

// String says it for people.
func (c Cleaned) String() string {
	return fmt.Sprintf("%d nodes were on the list of shielded ones; %d lost their verdict, %d the taint %s; %d pods of lost nodes are not ready any more; %d leases are gone",
		c.Listed, c.Annotated, c.Untainted, names.UnseenTaint, c.Marked, c.Leases)
}

// Clean leaves a cluster as if there had been no node health: no list, no verdicts, no taint of ours,
// no Leases of units, and pods of lost nodes as Kubernetes would have left them. What
// fails is tried no more, and the rest is done; doing it again does what is left.
func Clean(ctx context.Context, now time.Time, r Remains) (done Cleaned, err error) {
	leases, err := r.Leases(ctx)
	if err != nil {
		return done, err
	}
	if err := stillVotes(now, leases); err != nil {
		return done, err
	}
	listed, err := r.TakeList(ctx)
	if err != nil {
		return done, err // who is on it would be kept on
	}
	done.Listed = len(listed)
	var failed []error
	err = r.EachNode(ctx, func(n *corev1.Node) error {
		failed = append(failed, done.node(ctx, now, r, n))
		return ctx.Err()
	})
	failed = append(failed, err)
	for i := range leases {
		err := r.DeleteLease(ctx, &leases[i])
		if failed = append(failed, err); err == nil {
			done.Leases++
		}
	}
	return done, errors.Join(failed...)
}

// stillVotes refuses where a unit's Lease was renewed just now. It says when the API server took it,
// or its holder's clock.
func stillVotes(now time.Time, leases []coordinationv1.Lease) error {
	var units []string
	for i := range leases {
		l := &leases[i]
		at := keepLease(l).taken
		if at.IsZero() && l.Spec.RenewTime != nil {
			at = l.Spec.RenewTime.Time
		}
		if now.Sub(at) < shield.Default().Silent {
			units = append(units, l.Labels[names.UnitLease])
		}
	}
	if len(units) == 0 {
		return nil
	}
	const most = 5
	return fmt.Errorf("%w: units that renewed their leases just now: %d (%s): delete the DaemonSet gridmesh-health, wait for half a minute, and try again",
		ErrVoting, len(units), strings.Join(units[:min(len(units), most)], ", "))
}

// node takes away what a Node has.
func (c *Cleaned) node(ctx context.Context, now time.Time, r Remains, n *corev1.Node) error {
	var failed []error
	if find(n.Spec.Taints, unseen) >= 0 {
		err := r.EditTaints(ctx, n.Name, string(n.UID), func(n *corev1.Node) []corev1.Taint { return with(n.Spec.Taints, unseen, false, now) })
		if failed = append(failed, err); err == nil {
			c.Untainted++
		}
	}
	if _, ours := n.Annotations[names.Evidence]; ours { // SuperEdge's own verdicts have none
		err := r.Annotate(ctx, n.Name, string(n.UID), map[string]*string{names.NodeHealth: nil, names.Evidence: nil, names.NodeUnhealthy: nil})
		if failed = append(failed, err); err == nil {
			c.Annotated++
		}
	}
	is := keepNode("")(n)
	if is.lost() { // on the list or not: what failed once is done again without a list
		err := r.PodsOn(ctx, n.Name, typed.Now, func(p *corev1.Pod) error {
			if marked, ok := notReady(p, now); ok {
				err := r.SetReady(ctx, p, marked)
				if failed = append(failed, err); err == nil {
					c.Marked++
				}
			}
			return ctx.Err()
		})
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// Cleanup does it in a cluster, of whose namespace the list and the Leases are.
func Cleanup(ctx context.Context, c *kube.Client, namespace string) (Cleaned, error) {
	return Clean(ctx, time.Now(), remains{live{client: c, namespace: namespace}})
}

// remains is a real cluster.
type remains struct{ live }

// Leases implements Remains.
func (r remains) Leases(ctx context.Context) ([]coordinationv1.Lease, error) {
	return typed.LeasesWith(ctx, r.client, r.namespace, names.UnitLease)
}

// TakeList implements Remains.
func (r remains) TakeList(ctx context.Context) ([]string, error) {
	if _, err := typed.TakeTable(ctx, r.client, r.namespace, names.Units); err != nil {
		return nil, err
	}
	return typed.TakeTable(ctx, r.client, r.namespace, names.Shield)
}

// EachNode implements Remains.
func (r remains) EachNode(ctx context.Context, each func(*corev1.Node) error) error {
	return typed.EachNode(ctx, r.client, each)
}

// Annotate implements Remains.
func (r remains) Annotate(ctx context.Context, node, uid string, annotations map[string]*string) error {
	return typed.Annotate(ctx, r.client, node, uid, annotations)
}

// DeleteLease implements Remains.
func (r remains) DeleteLease(ctx context.Context, l *coordinationv1.Lease) error {
	return typed.DeleteLease(ctx, r.client, l)
}
