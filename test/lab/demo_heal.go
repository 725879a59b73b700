package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cloudWaits is how long the cloud of a lab waits for a silent node: two fifths
// of what Kubernetes does.
const cloudWaits = 20 * time.Second

// givenUp waits until the cloud has given unit a up: the controller manager has
// its nodes as lost, and its pods as not ready. The unit does not care.
func (d *demo) givenUp(ctx context.Context) error {
	d.step(fmt.Sprintf("Unit a has been silent for the %s that this cloud waits: it gives the unit's nodes and pods up", cloudWaits))
	if err := d.wait(ctx, "the controller manager to mark nodes and pods of unit a", func() error { return d.lost(ctx, "a") }); err != nil {
		return err
	}
	if err := d.wait(ctx, "the agent of a-1 to note the outage, for its next start", func() error {
		_, err := os.Stat(filepath.Join(d.c.Nodes["a-1"].Dir, "state/outage"))
		return err
	}); err != nil {
		return err
	}
	out, err := d.c.Kubectl("get", "nodes", "-L", "unit")
	if err != nil {
		return fmt.Errorf("kubectl get: %w: %s", err, out)
	}
	fmt.Print("\n", out)
	return d.mustBeClosed("given up by the cloud", "a-1")
}

// lost returns nil once the cloud has every node of a unit, and the shop's pods
// on it, as not ready.
func (d *demo) lost(ctx context.Context, unit string) error {
	nodes, err := d.c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "unit=" + unit})
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("node %s counts as ready", n.Name)
		}
	}
	for _, p := range d.pods {
		if p.unit != unit {
			continue
		}
		now, err := d.c.Kube.CoreV1().Pods("default").Get(ctx, p.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(now.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("pod %s counts as ready", p.name)
		}
	}
	return nil
}

// heal heals everything, while the unit's nodes and pods ask all the time. The
// cloud's word about the unit is that of the outage until the unit's kubelets
// have spoken, which here are slow to.
func (d *demo) heal(ctx context.Context) error {
	d.step("Everything heals. The cloud still says that nothing in unit a is ready; its kubelets are slow to contradict")
	unit := []string{"a-1", "a-2"}
	if err := d.during("cloud back, unit a given up", func() error {
		for _, name := range unit {
			d.c.Nodes[name].Kubelet.Signal(syscall.SIGSTOP)
		}
		if err := errors.Join(d.c.Lab.Node("a-2").Heal(), d.c.Lab.Unit("a").HealUplink()); err != nil {
			return err
		}
		if err := d.held(ctx, unit...); err != nil {
			return err
		}
		for _, name := range unit {
			d.c.Nodes[name].Kubelet.Signal(syscall.SIGCONT)
		}
		if err := d.nodesHeard(ctx, time.Now()); err != nil {
			return err
		}
		return d.learn(ctx, "a", "b", "c")
	}, unit...); err != nil {
		return err
	}
	nodes := []string{"a-1", "a-2", "b-1", "b-2", "c-1"}
	if err := d.caughtUp(ctx, nodes...); err != nil {
		return err
	}
	if err := d.settle(ctx, nodes...); err != nil {
		return err
	}
	return d.mustBeClosed("healed", nodes...)
}

// held waits until the agents of the nodes have heard the cloud's verdict, and
// hold the unit's endpoints nevertheless.
func (d *demo) held(ctx context.Context, nodes ...string) error {
	for _, name := range nodes {
		line := ""
		if err := d.wait(ctx, "the agent of "+name+" to hold what the cloud gave up", func() error {
			out, err := d.c.Nodes[name].Run("status")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			for l := range strings.Lines(string(out)) {
				if strings.HasPrefix(l, "held ") {
					line = strings.TrimSpace(l)
					return nil
				}
			}
			return fmt.Errorf("it holds nothing:\n%s", out)
		}); err != nil {
			return err
		}
		say("status of %s: %s", name, line)
	}
	return nil
}

// nodesHeard waits until every node has renewed its lease after a moment:
// from then on the controller manager does not take one for dead any more.
func (d *demo) nodesHeard(ctx context.Context, after time.Time) error {
	if err := d.wait(ctx, "every kubelet to reach the API server again", func() error {
		for name := range d.c.Nodes {
			l, err := d.c.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if l.Spec.RenewTime == nil || l.Spec.RenewTime.Time.Before(after) {
				return fmt.Errorf("%s was last heard of at %v", name, l.Spec.RenewTime)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return d.wait(ctx, "every node to be ready", func() error { return d.c.NodesReady(ctx) })
}
