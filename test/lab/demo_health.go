package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// healthGrace is how long a cloud waits for a silent node where units vote: as long as Kubernetes does.
const healthGrace = 50 * time.Second

// evictedSoon has the shop's pods evicted a moment after their node is taken for dead, instead of five minutes.
const evictedSoon = `tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]
        `

// runHealth tells what becomes of a node that only lost its uplink, and of one that died.
func (d *demo) runHealth(ctx context.Context, s *server) error {
	if err := d.tell(ctx, d.upHealth, d.deployBrief, d.voted, d.onlyUplink, d.dies); err != nil {
		return err
	}
	if s == nil {
		return nil
	}
	fmt.Print(`
The cluster stays until Ctrl-C or "bin/lab down". In another shell:
  bin/lab health -o wide
  bin/lab cut uplink a-1; bin/lab heal uplink a-1
`)
	return s.serve(ctx, d.c, d.controller)
}

func (d *demo) upHealth(whole context.Context) (err error) {
	d.step("A unit of three nodes and one of two; on every node a daemon that votes, beside agent and Envoy (about 12 s)")
	ctx, cancel := context.WithTimeout(whole, upTimeout)
	defer cancel()
	lab := labConfig(2, 3)
	lab.Units[1].Nodes = lab.Units[1].Nodes[:2]
	if d.c, err = cluster.Up(ctx, cluster.Config{Lab: lab, Proxy: map[string]string{"": gridmesh}, NodeGrace: healthGrace, Say: say}); err != nil {
		return err
	}
	if err := d.c.HealthRights(); err != nil {
		return err
	}
	if d.controller, err = keepController(whole, d.c, "--health-unit-key", cluster.UnitKey); err != nil {
		return err
	}
	for _, name := range names(d.c) {
		if _, err := d.c.Voter(ctx, name); err != nil {
			return err
		}
	}
	return d.wait(ctx, "the controller to install what keeps a shielded node's pods", func() error {
		return d.kubectl("get", "mutatingadmissionpolicybinding/gridmesh-shield-pods")
	})
}

func (d *demo) deployBrief(ctx context.Context) error {
	d.step("The shop: two pods in every unit, which are evicted 5 s after their node is taken for dead")
	text := strings.Replace(shopGrid, "topologySpreadConstraints", evictedSoon+"topologySpreadConstraints", 1)
	if err := d.wait(ctx, "the API server to take grids, whose kinds the controller brings", func() error { return d.c.Apply(text) }); err != nil {
		return err
	}
	if err := d.learn(ctx, "a", "b"); err != nil {
		return err
	}
	return d.settle(ctx, "a-1", "a-2", "a-3", "b-1", "b-2")
}

// voted waits until each unit says that all of its nodes are well.
func (d *demo) voted(ctx context.Context) error {
	d.step("The nodes of a unit ask each other, and one of them tells the cloud what they say")
	if err := d.verdicts(ctx, "true", names(d.c)...); err != nil {
		return err
	}
	return d.showHealth()
}

// verdicts waits until the units have said of nodes what is wanted.
func (d *demo) verdicts(ctx context.Context, want string, nodes ...string) error {
	return d.wait(ctx, fmt.Sprintf("the units to say %q of %s", want, strings.Join(nodes, ", ")), func() error {
		for _, name := range nodes {
			n, err := d.c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := n.Annotations[api.NodeHealth]; got != want {
				return fmt.Errorf("%s is voted %q", name, got)
			}
		}
		return nil
	})
}

// showHealth prints what people at a terminal are told.
func (d *demo) showHealth() error {
	fmt.Println()
	cmd := exec.Command(edge.Binary("gridmesh"), "health", "--kubeconfig", d.c.Kubeconfig, "-o", "wide")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := d.c.Lab.Cloud.Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// onlyUplink cuts a node's uplink: the cloud hears nothing of it, and keeps its pods and their endpoints.
func (d *demo) onlyUplink(ctx context.Context) error {
	victim, err := d.otherWithAPod("a-1")
	if err != nil {
		return err
	}
	d.step(fmt.Sprintf("%s loses its uplink, and nothing else: after %s the cloud takes it for lost; its unit says that it is well", victim, healthGrace))
	before, err := d.endpoints(ctx)
	if err != nil {
		return err
	}
	if err := d.during("uplink of "+victim+" cut", func() error {
		if err := d.c.Lab.SetNodeUplink(victim, true); err != nil {
			return err
		}
		if err := d.wait(ctx, "the cloud to take "+victim+" for lost", func() error { return d.tainted(ctx, victim, corev1.TaintEffectNoSchedule) }); err != nil {
			return err
		}
		return d.stays(ctx, victim, before)
	}, "a-1", victim); err != nil {
		return err
	}
	say("nothing new is placed on %s; no pod of it was deleted, and none of its endpoints removed", victim)
	if err := d.showHealth(); err != nil {
		return err
	}
	if err := d.c.Lab.SetNodeUplink(victim, false); err != nil {
		return err
	}
	return d.wait(ctx, "the cloud to hear "+victim+" again", func() error { return d.clean(ctx, victim) })
}

// stays holds a lost node against what it was, for longer than its pods tolerate.
func (d *demo) stays(ctx context.Context, node string, endpoints []string) error {
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		if d.tainted(ctx, node, corev1.TaintEffectNoExecute) == nil {
			return fmt.Errorf("the pods of %s, which lives, are evicted", node)
		}
		now, err := d.endpoints(ctx)
		if err != nil {
			return err
		}
		if !slices.Equal(now, endpoints) {
			return fmt.Errorf("endpoints are %v, were %v", now, endpoints)
		}
	}
	return nil
}

// dies parts a node from everything: its unit says so, and its pods go where nodes live.
func (d *demo) dies(ctx context.Context) error {
	victim, err := d.otherWithAPod("a-1")
	if err != nil {
		return err
	}
	d.step(fmt.Sprintf("%s dies: its unit says so, and the cloud evicts what was on it", victim))
	start := time.Now()
	if err := d.c.Lab.SetNode(victim, true); err != nil { // what is open to it ends with it
		return err
	}
	if err := d.during(victim+" dead", func() error {
		if err := d.verdicts(ctx, "false", victim); err != nil {
			return err
		}
		say("its unit says so after %s", time.Since(start).Round(time.Second))
		return d.wait(ctx, "the cloud to take "+victim+" for lost", func() error { return d.tainted(ctx, victim, corev1.TaintEffectNoSchedule) })
	}, "a-1"); err != nil {
		return err
	}
	if err := d.showHealth(); err != nil {
		return err
	}
	if err := d.learn(ctx, "a", "b"); err != nil {
		return err
	}
	say("the unit has its two pods again %s after %s died", time.Since(start).Round(time.Second), victim)
	if err := d.settle(ctx, "a-1"); err != nil {
		return err
	}
	return d.mustBeClosed("moved to a node that lives", "a-1")
}

// otherWithAPod is a node of unit a that runs the shop, and is not this one.
func (d *demo) otherWithAPod(not string) (string, error) {
	for _, p := range d.pods {
		if p.unit == "a" && p.node != not {
			return p.node, nil
		}
	}
	return "", errors.New("no other node of unit a runs the shop")
}

// tainted returns nil where a node is taken for lost, to such effect.
func (d *demo) tainted(ctx context.Context, node string, effect corev1.TaintEffect) error {
	n, err := d.c.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable && t.Effect == effect }) {
		return fmt.Errorf("%s has the taints %v", node, n.Spec.Taints)
	}
	return nil
}

// clean returns nil where a node has no taint.
func (d *demo) clean(ctx context.Context, node string) error {
	n, err := d.c.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err == nil && len(n.Spec.Taints) > 0 {
		err = fmt.Errorf("%s has the taints %v", node, n.Spec.Taints)
	}
	return err
}
