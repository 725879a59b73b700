package cloud

import (
	"context"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/events"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// manager is whose the tables' data are.
const manager = "gridmesh-health"

// live is a real cluster.
type live struct {
	client    *kube.Client
	namespace string
	events    *events.Writer
}

// WriteList implements Cluster.
func (l live) WriteList(ctx context.Context, data map[string]string) error {
	return typed.WriteTable(ctx, l.client, l.namespace, names.Shield, manager, data)
}

// WriteUnits implements Cluster.
func (l live) WriteUnits(ctx context.Context, table map[string]string) error {
	return typed.WriteTable(ctx, l.client, l.namespace, names.Units, manager, table)
}

// PodsOn implements Cluster.
func (l live) PodsOn(ctx context.Context, node string, f typed.Freshness, each func(*corev1.Pod) error) error {
	return typed.PodsOn(ctx, l.client, node, f, each)
}

// SetReady implements Cluster.
func (l live) SetReady(ctx context.Context, pod *corev1.Pod, ready corev1.PodCondition) error {
	return typed.SetReady(ctx, l.client, pod, ready)
}

// Evict implements Cluster.
func (l live) Evict(ctx context.Context, pod *corev1.Pod) error {
	return typed.Evict(ctx, l.client, pod)
}

// EditTaints implements Cluster.
func (l live) EditTaints(ctx context.Context, node, uid string, edit func(*corev1.Node) []corev1.Taint) error {
	return typed.EditTaints(ctx, l.client, node, uid, edit)
}

// Event implements Cluster.
func (l live) Event(node, uid, kind, reason, text string) {
	about := corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: node, UID: types.UID(uid)}
	l.events.Event(about, kind, reason, text)
}

// lapse is for how long an entry counts that ended: whoever wrote it may have another clock.
const lapse = time.Minute

// inForce are the nodes of a list that it keeps at a time.
func inForce(list map[string]string, now time.Time) (kept []string) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if until, err := time.Parse(time.RFC3339, list[name]); err == nil && now.Sub(until) <= lapse {
			kept = append(kept, name)
		}
	}
	return kept
}

// Run keeps the shield of a cluster, and the table of its units, until ctx ends. Both and the
// units' Leases are in a namespace.
func Run(ctx context.Context, cfg Config, c *kube.Client, namespace string, ev *events.Writer, m *Metrics) error {
	w := watched{
		nodes: typed.Nodes(c, typed.Selection{}, keepNode(cfg.UnitKey)).Following(node.rewrites),
		leases: typed.Leases(c, namespace, typed.Selection{Labels: names.UnitLease}, func(l *coordinationv1.Lease) lease {
			return lease{l.Labels[names.UnitLease], keepLease(l)}
		}),
		shield:    typed.NodeTables(c, namespace, typed.Selection{Fields: "metadata.name=" + names.Shield}),
		units:     typed.NodeTables(c, namespace, typed.Selection{Fields: "metadata.name=" + names.Units}),
		namespace: namespace, leaseOf: map[string]string{},
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !w.begin(ctx, &cfg, m) {
		return nil
	}
	table, there := w.shield.Get(namespace + "/" + names.Shield)
	k := New(cfg, live{c, namespace, ev}, m, inForce(table, time.Now()), time.Now())
	k.found(table, there)
	k.units.found(nil) // the first look has the table where there is one
	defer k.work.Wait()
	tick := time.NewTicker(cfg.Every)
	defer tick.Stop()
	for {
		now := time.Now()
		w.follow(k, now)
		k.hear(now, w.nodes.Fault(), w.leases.Fault())
		k.step(ctx, now)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
