package grid_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// Every unit gets a child, the status and a revision follow, and then nothing
// is written, whatever others write to Nodes and statuses.
func TestCreates(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
		c.Update("kubectl", `{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: till}, spec: {gridUniqKey: site, template: {ports: [{port: 80}]}}}`)
	}, func(w *world) {
		w.soon()
		w.names("Deployment", "till-north", "till-south")
		w.names("Service", "till-svc")
		w.is(deployment("till-south"), "spec.template.spec.nodeSelector.site", "south")
		w.is(deployment("till-south"), "metadata.labels.team", "shops")
		w.is(plan.Ref{Kind: "Service", Namespace: "default", Name: "till-svc"}, "metadata.annotations.topologyKeys", `["site"]`)
		w.is(till, "status.units", 2)
		w.is(till, "status.readyUnits", 2)
		if status, _ := w.condition(till, "Ready"); status != "True" {
			t.Errorf("Ready is %q", status)
		}
		if n := len(w.Names("ControllerRevision")); n != 1 {
			t.Errorf("%d revisions", n)
		}
		w.event("deploymentgrid default/till: Created: made the child of unit north, south")
		w.event("servicegrid default/till: Created: made the child of all units")
		w.Edit(plan.Ref{Kind: "Node", Name: "node-north"}, func(o plan.Object) { o["spec"] = plan.Object{"beat": int64(1)} })
		w.quiet()

		w.Node("node-west", "site", "west")
		w.soon()
		w.names("Deployment", "till-north", "till-south", "till-west")
		w.Remove(deployment("till-west"))
		w.soon()
		w.names("Deployment", "till-north", "till-south", "till-west")
		w.Remove(till)
		w.soon()
		w.names("Deployment")
		w.quiet()
	})
}

// What the grid says comes back, what it does not name is nobody's business,
// and what another manager scales stays scaled.
func TestKeepsInLine(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		scaled := plan.Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": plan.Object{"namespace": "default", "name": "till-south"}, "spec": plan.Object{"replicas": int64(5)}}
		if _, err := w.Apply(t.Context(), scaled, "hpa"); err != nil {
			t.Fatal(err)
		}
		w.Edit(deployment("till-north"), func(o plan.Object) {
			o["metadata"].(plan.Object)["labels"].(plan.Object)["team"] = "mine"
			o["metadata"].(plan.Object)["labels"].(plan.Object)["note"] = "by hand"
		})
		w.soon()
		w.is(deployment("till-north"), "metadata.labels.team", "shops")
		w.is(deployment("till-north"), "metadata.labels.note", "by hand")
		update(w.Cluster, tillGrid, "image: v1", "image: v2")
		w.soon()
		for _, name := range []string{"till-north", "till-south"} {
			containers := fmt.Sprint(w.at(deployment(name), "spec.template.spec.containers"))
			if !strings.Contains(containers, "v2") {
				t.Errorf("%s runs %s", name, containers)
			}
		}
		w.is(deployment("till-south"), "spec.replicas", 5)
		w.quiet()
	})
}

// What an admission webhook makes different is not written again and again.
func TestDoesNotFightAWebhook(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true, Mutate: func(obj plan.Object) {
		if obj["kind"] == "Deployment" {
			obj["spec"].(plan.Object)["replicas"] = int64(9)
		}
	}}}, func(c *gridtest.Cluster) {
		shops("north")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		w.is(deployment("till-north"), "spec.replicas", 9)
		w.quiet()
	})
}

const oldChild = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: till-north, labels: {superedge.io/grid-selector: till, superedge.io/grid-uniq-key: site, gone: soon}}
spec:
  replicas: 2
  selector: {matchLabels: {app: till}}
  template:
    metadata: {labels: {app: till, superedge.io/template-hash-key: "123"}}
    spec: {nodeSelector: {site: north}, containers: [{name: c, image: v1}]}
`

// A child of SuperEdge's controller is taken over: its pods' template stays,
// and what that controller wrote and the grid does not name goes.
func TestAdopts(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("north")(c)
		update(c, tillGrid)
		c.Update(plan.SuperEdgeManager, oldChild)
	}, func(w *world) {
		before := fmt.Sprint(w.at(deployment("till-north"), "spec"))
		w.soon()
		if after := fmt.Sprint(w.at(deployment("till-north"), "spec")); after != before {
			t.Errorf("the spec was\n%s\nand is\n%s", before, after)
		}
		w.is(deployment("till-north"), "metadata.labels.gone", nil)
		if fields := fmt.Sprint(w.at(deployment("till-north"), "metadata.managedFields")); strings.Contains(fields, plan.SuperEdgeManager) {
			t.Errorf("the old controller still owns fields: %s", fields)
		}
		if owners, _ := w.at(deployment("till-north"), "metadata.ownerReferences").([]any); len(owners) != 1 {
			t.Errorf("owners %v", owners)
		}
		w.event("Adopted: took over the child of unit north")
		w.noEvent("Created")
		w.quiet()
	})
}

// A child that is given another grid's label stays as it is, without an owner;
// its unit gets another, under a name of its own.
func TestReleases(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("north")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		w.Edit(deployment("till-north"), func(o plan.Object) {
			o["metadata"].(plan.Object)["labels"].(plan.Object)["superedge.io/grid-selector"] = "other"
		})
		w.soon()
		if owners, _ := w.at(deployment("till-north"), "metadata.ownerReferences").([]any); len(owners) != 0 || w.annotation(deployment("till-north"), "gridmesh.io/applied") != "" {
			t.Errorf("it is not released: %v", w.at(deployment("till-north"), "metadata"))
		}
		if names := w.Names("Deployment"); len(names) != 2 || !strings.HasPrefix(names[1], "till-north-") {
			t.Errorf("Deployments %v", names)
		}
		w.event("Released: let go of the child of unit north")
		w.quiet()
	})
}

// An object that bears a child's name and is nobody's is never taken; once it
// is away, the child is made within half a minute, without a watch.
func TestAnUnownedObjectIsNotTaken(t *testing.T) {
	set := plan.Ref{Kind: "StatefulSet", Namespace: "default", Name: "till-north"}
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid, "DeploymentGrid", "StatefulSetGrid")
		c.Update("kubectl", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: till-north}, spec: {serviceName: mine}}`)
	}, func(w *world) {
		w.soon()
		w.is(set, "spec.serviceName", "mine")
		w.is(set, "metadata.ownerReferences", nil)
		w.names("StatefulSet", "till-north", "till-south")
		status, message := w.condition(plan.Ref{Kind: "StatefulSetGrid", Namespace: "default", Name: "till"}, "Valid")
		if status != "False" || !strings.Contains(message, "unit north: a StatefulSet till-north exists and is not this grid's; delete it") {
			t.Errorf("Valid is %q: %s", status, message)
		}
		w.event("Refused: statefulsetgrid default/till: unit north")
		w.Remove(set)
		w.pass(35 * time.Second)
		w.is(set, "spec.template.spec.nodeSelector.site", "north")
	})
}

// A unit that loses its last node is held for the grace, and few are removed
// at once; one whose node is back is as it was.
func TestTheGuardHolds(t *testing.T) {
	var units []string
	for i := range 10 {
		units = append(units, fmt.Sprintf("shop-%d", i))
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true}, guard: plan.Guard{Grace: 5 * time.Minute, Share: 0.2}}, func(c *gridtest.Cluster) {
		shops(units...)(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		for _, unit := range units[:5] { // a mistyped label
			w.Node("node-"+unit, "stie", unit)
		}
		w.pass(time.Minute)
		w.is(till, "status.heldUnits", 5)
		if w.annotation(deployment("till-shop-0"), "gridmesh.io/unit-gone-since") == "" {
			t.Error("it is not said since when the unit is gone")
		}
		w.event("UnitGone: unit shop-0, shop-1, shop-2 and 2 more has no node any more")
		w.Node("node-shop-4", "site", "shop-4")
		w.soon()
		if since := w.annotation(deployment("till-shop-4"), "gridmesh.io/unit-gone-since"); since != "" {
			t.Errorf("shop-4 is back, and gone since %s", since)
		}
		w.pass(3 * time.Minute)
		if n := len(w.Names("Deployment")); n != 10 {
			t.Errorf("%d children before the grace is over", n)
		}
		w.pass(90 * time.Second)
		if n := len(w.Names("Deployment")); n != 8 {
			t.Errorf("%d children after the grace, 2 of 10 may go at once", n)
		}
		w.pass(11 * time.Minute) // of the 8 that are left, one at once
		w.names("Deployment", "till-shop-4", "till-shop-5", "till-shop-6", "till-shop-7", "till-shop-8", "till-shop-9")
		w.event("Removed: removed the workload of unit")
		w.quiet()
	})
}

// A change goes wave by wave: the next begins a pause after the one before is
// ready, and none begins while a unit is not.
func TestWaves(t *testing.T) {
	image := func(w *world, unit string) string {
		containers := fmt.Sprint(w.at(deployment("till-"+unit), "spec.template.spec.containers"))
		return containers[strings.Index(containers, "image:")+6:][:2]
	}
	images := func(w *world) string { return image(w, "a") + image(w, "b") + image(w, "c") }
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.soon()
		rollOut := func(units ...string) {
			for _, unit := range units {
				w.RollOut(deployment("till-" + unit))
			}
		}
		rollOut("a", "b", "c")
		w.soon()
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		w.soon()
		if got := images(w); got != "v2v1v1" {
			t.Fatalf("the first wave: %s", got)
		}
		w.pass(5 * time.Minute) // it is not ready
		if got := images(w); got != "v2v1v1" {
			t.Fatalf("while the first wave is not ready: %s", got)
		}
		rollOut("a")
		w.pass(50 * time.Second)
		if got := images(w); got != "v2v1v1" {
			t.Fatalf("within the pause: %s", got)
		}
		w.pass(15 * time.Second)
		if got := images(w); got != "v2v2v1" {
			t.Fatalf("after the pause: %s", got)
		}
		w.pass(11 * time.Minute) // past the deadline
		if status, message := w.condition(till, "Progressing"); status != "False" || !strings.Contains(message, "unit b is not ready") {
			t.Errorf("Progressing is %q: %s", status, message)
		}
		w.event("RolloutStopped")
		rollOut("b")
		w.pass(2 * time.Minute)
		rollOut("c")
		w.pass(2 * time.Minute)
		if got := images(w); got != "v2v2v2" {
			t.Errorf("in the end: %s", got)
		}
		w.event("WaveBegins: the change goes to 1 of the 3 units that wait for it: a")
		w.event("RolloutComplete")
		w.quiet()
	})
}

// Ten revisions besides the current one stay; a template that no unit names
// leaves the pool.
func TestRevisionsAndUnusedTemplates(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("north")(c)
		update(c, tillGrid+"  autoDeleteUnusedTemplate: true\n  templatePool: {canary: {replicas: 1}}\n")
	}, func(w *world) {
		w.soon()
		w.is(till, "spec.templatePool", "map[]")
		for i := range 15 {
			update(w.Cluster, tillGrid, "image: v1", fmt.Sprintf("image: r%d", i))
			w.soon()
		}
		if n := len(w.Names("ControllerRevision")); n != 11 {
			t.Errorf("%d revisions", n)
		}
		current, _ := w.at(till, "status.revision").(string)
		w.is(plan.Ref{Kind: "ControllerRevision", Namespace: "default", Name: current}, "revision", 17)
		w.quiet()
	})
}
