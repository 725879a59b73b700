package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// children lists a grid's Deployments by unit.
func children(t *testing.T, grid string) map[string]string {
	t.Helper()
	list, err := c.Kube.AppsV1().Deployments("default").List(patient(t), metav1.ListOptions{LabelSelector: "superedge.io/grid-selector=" + grid})
	must(t, err)
	out := map[string]string{}
	for _, d := range list.Items {
		out[d.Annotations["gridmesh.io/unit"]] = d.Name
	}
	return out
}

func wantChildren(t *testing.T, grid string, units ...string) {
	t.Helper()
	wait.Eventually(t, func() error {
		if got := slices.Sorted(maps.Keys(children(t, grid))); !slices.Equal(got, units) {
			return fmt.Errorf("children of %s in %v, want %v", grid, got, units)
		}
		return nil
	})
}

const changeService = `
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: chg, labels: {team: shops, tier: one}, annotations: {note: hello}}
spec:
  gridUniqKey: site
  template: {selector: {app: chg}, ports: [{name: main, port: 80, targetPort: main}, {name: more, port: 81, targetPort: main}]}
`

// A node moves between units, a unit is renamed, ports and labels go, the unit
// key changes.
func TestGridsFollowChanges(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "a-2": "north", "b-1": "south", "b-2": "west"})
	controller(t, "--removal-grace", "2s", "--removal-share", "1")
	applied(t, strings.Replace(deploymentGrid("chg", "", "1"), "{name: chg}", "{name: chg, labels: {team: shops, tier: one}}", 1)+"---"+changeService, "deploymentgrid/chg", "servicegrid/chg")
	allReady(t, "deploymentgrids", "chg", 3)
	svc, err := c.Kube.CoreV1().Services("default").Get(patient(t), "chg-svc", metav1.GetOptions{})
	must(t, err)

	// The node a-2 moves: nothing is written, its traffic moves.
	before := wait.Settled(t, calm, func() float64 { return writes(t) })
	label(t, "a-2", "south")
	to := mustAddrPort(svc.Spec.ClusterIP, 80)
	// A pod of north that runs on a-2 moves with it, and serves south then.
	pods, err := c.WaitPods(patient(t), "default", "app=chg", 3)
	must(t, err)
	south := map[string]bool{}
	for _, p := range pods {
		south[p.Name] = p.Spec.NodeName == "a-2" || p.Spec.NodeName == "b-1"
	}
	took := wait.Within(t, byWatch, func() error {
		for range 6 {
			if got, err := ask(c.Nodes["a-2"].NS, "tcp", to); err != nil || !south[got.Name] {
				return fmt.Errorf("a-2 is answered by %q: %w", got.Name, err)
			}
		}
		return nil
	})
	t.Logf("a node that moved is served by its new unit after %s", took)
	if after := writes(t); after != before {
		t.Errorf("%g writes though no unit came or went", after-before)
	}
	label(t, "a-2", "north")

	// Unit west is renamed east.
	label(t, "b-2", "east")
	wait.Eventually(t, func() error { return readyChild("chg-east") })
	wantChildren(t, "chg", "east", "north", "south")
	wait.Eventually(t, func() error { return hasEvent(t, "chg", "UnitGone", "unit west has no node any more") })
	wait.Eventually(t, func() error { return hasEvent(t, "chg", "Removed", "unit west") })

	// Ports, labels and annotations that the grid no longer has are gone.
	changed := strings.NewReplacer(", {name: more, port: 81, targetPort: main}", "", "{team: shops, tier: one}", "{team: shops}", "{note: hello}", "{}").Replace(changeService)
	must(t, c.Apply(changed))
	wait.Eventually(t, func() error {
		svc, err := c.Kube.CoreV1().Services("default").Get(patient(t), "chg-svc", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, tier := svc.Labels["tier"]
		_, note := svc.Annotations["note"]
		if len(svc.Spec.Ports) != 1 || tier || note || svc.Labels["team"] != "shops" {
			return fmt.Errorf("ports %v, labels %v, annotations %v", svc.Spec.Ports, svc.Labels, svc.Annotations)
		}
		return nil
	})
	must(t, c.Apply(strings.Replace(deploymentGrid("chg", "", "1"), "{name: chg}", "{name: chg, labels: {team: shops}}", 1)))
	wait.Eventually(t, func() error {
		d, err := child("chg-north")
		if _, tier := d.Labels["tier"]; err == nil && tier {
			err = fmt.Errorf("labels %v", d.Labels)
		}
		return err
	})

	// Another unit key: other units, the old ones go, the Service follows.
	for node, room := range map[string]string{"a-1": "hall", "b-1": "yard"} {
		_, err := c.Kubectl("label", "--overwrite", "node", node, "shop.example/room="+room)
		must(t, err)
		t.Cleanup(func() {
			_, err := c.Kubectl("label", "--overwrite", "node", node, "shop.example/room-")
			must(t, err)
		})
	}
	rekey := strings.NewReplacer("gridUniqKey: site", "gridUniqKey: shop.example/room")
	must(t, c.Apply(rekey.Replace(strings.Replace(deploymentGrid("chg", "", "1"), "{name: chg}", "{name: chg, labels: {team: shops}}", 1))+"---"+rekey.Replace(changed)))
	wantChildren(t, "chg", "hall", "yard")
	allReady(t, "deploymentgrids", "chg", 2)
	d, err := child("chg-hall")
	must(t, err)
	if sel := d.Spec.Template.Spec.NodeSelector; len(sel) != 1 || sel["shop.example/room"] != "hall" || d.Labels["superedge.io/grid-uniq-key"] != "shop.example..room" || d.Annotations["gridmesh.io/unit-key"] != "shop.example/room" {
		t.Errorf("chg-hall: node selector %v, labels %v, annotations %v", sel, d.Labels, d.Annotations)
	}
	wait.Eventually(t, func() error {
		svc, err := c.Kube.CoreV1().Services("default").Get(patient(t), "chg-svc", metav1.GetOptions{})
		if err == nil && svc.Annotations["topologyKeys"] != `["shop.example/room"]` {
			err = fmt.Errorf("topologyKeys %s", svc.Annotations["topologyKeys"])
		}
		return err
	})
}

// "a" in unit "b-c" and "a-b" in unit "c" want one name; each gets a child.
func TestGridNamesThatClash(t *testing.T) {
	_, err := c.Kubectl("label", "node", "a-1", "left=b-c", "right=c")
	must(t, err)
	t.Cleanup(func() {
		_, err := c.Kubectl("label", "node", "a-1", "left-", "right-")
		must(t, err)
	})
	controller(t)
	grid := func(name, key string) string {
		return strings.Replace(deploymentGrid(name, "", "1"), "gridUniqKey: site", "gridUniqKey: "+key, 1)
	}
	applied(t, grid("a", "left")+"---"+grid("a-b", "right"), "deploymentgrid/a", "deploymentgrid/a-b")
	allReady(t, "deploymentgrids", "a", 1)
	allReady(t, "deploymentgrids", "a-b", 1)
	one, other := children(t, "a")["b-c"], children(t, "a-b")["c"]
	if one == other || one != "a-b-c" && other != "a-b-c" {
		t.Errorf("children %q and %q", one, other)
	}
}

// Templates by unit, the default among them, and the pool kept clean.
func TestGridTemplates(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	controller(t)
	pool := func(versions ...string) string {
		var entries []string
		for _, v := range versions {
			entries = append(entries, v+": {"+strings.NewReplacer("NAME", "ver", "VERSION", v).Replace(podsOf)+"}")
		}
		return "templatePool: {" + strings.Join(entries, ", ") + "}"
	}
	applied(t, deploymentGrid("ver", pool("two", "three")+"\n  templates: {south: two}", "1"), "deploymentgrid/ver")
	release := func(unit, want string) {
		t.Helper()
		wait.Eventually(t, func() error {
			d, err := child("ver-" + unit)
			if err == nil && d.Spec.Template.Spec.Containers[0].Env[0].Value != want {
				err = fmt.Errorf("%s runs %s, want %s", unit, d.Spec.Template.Spec.Containers[0].Env[0].Value, want)
			}
			return err
		})
	}
	release("north", "1")
	release("south", "two")
	must(t, c.Apply(deploymentGrid("ver", pool("two", "three")+"\n  templates: {south: two}\n  defaultTemplateName: three\n  autoDeleteUnusedTemplate: true", "1")))
	release("north", "three")
	release("south", "two")
	must(t, c.Apply(deploymentGrid("ver", pool("two", "three")+"\n  defaultTemplateName: three\n  autoDeleteUnusedTemplate: true", "1")))
	release("south", "three")
	wait.Eventually(t, func() error {
		u, err := grids(t, "deploymentgrids").Get(patient(t), "ver", metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec, _ := u.Object["spec"].(map[string]any)
		left, _ := spec["templatePool"].(map[string]any)
		if got := slices.Sorted(maps.Keys(left)); !slices.Equal(got, []string{"three"}) {
			return fmt.Errorf("the pool holds %v", got)
		}
		return nil
	})
}

// The label is stripped from every node, by mistake: nothing goes before the
// grace has passed, then no more than a share at once; and the label brings
// back what is left, with the same pods.
func TestGridGuard(t *testing.T) {
	// Long enough for all to be seen as held on a slow machine.
	const grace = 20 * time.Second
	inUnits(t, waveUnits)
	controller(t, "--removal-grace", grace.String(), "--removal-share", "0.4")
	applied(t, deploymentGrid("keep", "", "1"), "deploymentgrid/keep")
	allReady(t, "deploymentgrids", "keep", 6)
	pods, err := c.WaitPods(patient(t), "default", "app=keep", 6)
	must(t, err)
	strip := []string{"label", "node"}
	give := map[string]string{}
	for node, unit := range waveUnits {
		strip = append(strip, node)
		give[node] = unit
	}
	start := time.Now()
	_, err = c.Kubectl(append(strip, "site-")...)
	must(t, err)
	wait.Eventually(t, func() error {
		st, err := statusOf(t, "deploymentgrids", "keep")
		if err == nil && st.HeldUnits != 6 {
			err = fmt.Errorf("%d units are held", st.HeldUnits)
		}
		if err != nil {
			return err
		}
		return hasCondition(st.Conditions, "Held", metav1.ConditionTrue, "u1, u2, u3 and 3 more")
	})
	wait.Holds(t, grace-time.Since(start)-500*time.Millisecond, func() error {
		if n := len(children(t, "keep")); n != 6 {
			return fmt.Errorf("%d children %s after the labels went", n, time.Since(start))
		}
		return nil
	})
	wait.Eventually(t, func() error {
		if len(children(t, "keep")) == 6 {
			return errors.New("all children are there")
		}
		return nil
	})
	took, n := time.Since(start), 0
	wait.Holds(t, 4*time.Second, func() error { // one or two: the labels went one after the other
		if n = len(children(t, "keep")); n < 4 {
			return fmt.Errorf("%d children %s after the labels went", n, time.Since(start))
		}
		return nil
	})
	t.Logf("%d of 6 units were removed after %s", 6-n, took)
	left := children(t, "keep")
	for node, unit := range give { // without a kubectl for each: the next share goes a grace after the first
		_, err := c.Kube.CoreV1().Nodes().Patch(patient(t), node, types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"labels": {"site": %q}}}`, unit), metav1.PatchOptions{})
		must(t, err)
	}
	allReady(t, "deploymentgrids", "keep", 6)
	after, err := c.WaitPods(patient(t), "default", "app=keep", 6)
	must(t, err)
	known := map[string]bool{}
	for _, p := range pods {
		known[string(p.UID)] = true
	}
	for _, p := range after {
		unit := waveUnits[p.Spec.NodeName]
		if left[unit] != "" && !known[string(p.UID)] {
			t.Errorf("the pod of %s, which was held, is new", unit)
		}
	}
}
