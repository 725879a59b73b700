package cloud

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/events"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// manager is whose the list's data are.
const manager = "gridmesh-health"

// live is a real cluster.
type live struct {
	client    *kube.Client
	namespace string
	events    *events.Writer
}

// WriteList implements Cluster.
func (l live) WriteList(ctx context.Context, data map[string]string) error {
	return typed.ReplaceData(ctx, l.client, l.namespace, names.Shield, manager, data)
}

// PodsOn implements Cluster.
func (l live) PodsOn(ctx context.Context, node string, each func(*corev1.Pod) error) error {
	return typed.PodsOn(ctx, l.client, node, each)
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
func (l live) EditTaints(ctx context.Context, node, uid string, edit func([]corev1.Taint) []corev1.Taint) error {
	return typed.EditTaints(ctx, l.client, node, uid, edit)
}

// Event implements Cluster.
func (l live) Event(node, uid, kind, reason, text string) {
	about := corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: node, UID: types.UID(uid)}
	l.events.Event(about, kind, reason, text)
}

// Run keeps the shield of a cluster until ctx ends. The list and the units' Leases are in a
// namespace.
func Run(ctx context.Context, cfg Config, c *kube.Client, namespace string, ev *events.Writer, m *Metrics) error {
	nodes := typed.Nodes(c, typed.Selection{}, keepNode(cfg.UnitKey))
	leases := typed.Leases(c, namespace, typed.Selection{Labels: names.UnitLease}, func(l *coordinationv1.Lease) lease {
		return lease{l.Labels[names.UnitLease], keepLease(l)}
	})
	lists := typed.ConfigMaps(c, namespace, typed.Selection{Fields: "metadata.name=" + names.Shield}, func(m *corev1.ConfigMap) []string {
		return slices.Sorted(maps.Keys(m.Data))
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, run := range []func(context.Context) error{nodes.Run, leases.Run, lists.Run} {
		go func() { _ = run(ctx) }()
	}
	for _, ready := range []<-chan struct{}{nodes.Ready(), leases.Ready(), lists.Ready()} {
		select {
		case <-ready:
		case <-ctx.Done():
			return nil
		}
	}
	listed, _ := lists.Get(namespace + "/" + names.Shield)
	k := New(cfg, live{c, namespace, ev}, m, listed, time.Now())
	defer k.work.Wait()
	tick := time.NewTicker(cfg.Every)
	defer tick.Stop()
	of := map[string]string{} // the unit of each Lease
	for {
		now := time.Now()
		for _, name := range nodes.Changes() {
			n, ok := nodes.Get(name)
			k.world.setNode(now, name, n, !ok)
		}
		for _, name := range leases.Changes() {
			l, ok := leases.Get(name)
			if was, had := of[name]; had && (!ok || was != l.unit) {
				k.world.setLease(now, was, renewal{}, true)
				delete(of, name)
			}
			if ok && strings.TrimSpace(l.unit) != "" {
				of[name] = l.unit
				k.world.setLease(now, l.unit, l.renewed, false)
			}
		}
		k.hear(now, nodes.Fault(), leases.Fault())
		k.look(ctx, now)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// lease is what is kept of a unit's Lease.
type lease struct {
	unit    string
	renewed renewal
}
