package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// superEdge stands for application-grid-controller: what it leaves in a cluster.
const superEdge = "--field-manager=application-grid-controller"

// oldCRD is one without validation and without a status subresource.
const oldCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.superedge.io}
spec:
  group: superedge.io
  scope: Namespaced
  names: {kind: KIND, listKind: KINDList, plural: PLURAL, singular: SINGULAR, shortNames: [SHORT]}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

const oldPods = `{metadata: {labels: {app: NAME, superedge.io/template-hash-key: "1234567890"}}, spec: {SELECTOR terminationGracePeriodSeconds: 1, containers: [{name: app, image: gridmesh.test/app, ports: [{name: main, containerPort: 8080}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}, resources: {requests: {cpu: "0.010"}}}]}}`

// The grids, as their users wrote them and the old controller left them: one
// without replicas, and one whose template lacks the label that pods have.
const oldGrids = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: web, labels: {team: shops}}
spec:
  gridUniqKey: site
  template: {selector: {matchLabels: {app: web}}, template: WEBPODS}
---
apiVersion: superedge.io/v1
kind: StatefulSetGrid
metadata: {name: stock}
spec:
  gridUniqKey: site
  defaultTemplateName: default
  template: {replicas: 1, serviceName: stock, selector: {matchLabels: {app: stock}}, template: STOCKPODS}
---
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: web}
spec:
  gridUniqKey: site
  template: {selector: {app: web}, ports: [{port: 80, targetPort: main}]}
`

// A cluster that SuperEdge managed is taken over: CRDs, Deployments,
// StatefulSets and Services, without one pod that restarts.
func TestGridsTakeOverFromSuperEdge(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	oldKinds(t)
	pods := func(name, selector string) string {
		return strings.NewReplacer("NAME", name, "SELECTOR", selector).Replace(oldPods)
	}
	web := strings.Replace(pods("web", ""), `, superedge.io/template-hash-key: "1234567890"`, "", 1)
	applied(t, strings.NewReplacer("WEBPODS", web, "STOCKPODS", pods("stock", "")).Replace(oldGrids), "deploymentgrid/web", "statefulsetgrid/stock", "servicegrid/web")
	oldChildren(t, pods)
	wait.Eventually(t, func() error { return readyChild("web-north") })
	before := podUIDs(t)
	d0, err := child("web-north")
	must(t, err)
	db0, err := c.Kube.AppsV1().StatefulSets("default").Get(patient(t), "stock-north", metav1.GetOptions{})
	must(t, err)

	p := controller(t)
	took := allReady(t, "deploymentgrids", "web", 2)
	allReady(t, "statefulsetgrids", "stock", 2)
	t.Logf("taken over after %s", took)
	wait.Eventually(t, func() error { return hasEvent(t, "web", "Adopted", "unit north, south") })
	svc, err := c.Kube.CoreV1().Services("default").Get(patient(t), "web-svc", metav1.GetOptions{})
	must(t, err)
	d, err := child("web-north")
	must(t, err)
	for name, m := range map[string]metav1.ObjectMeta{"web-svc": svc.ObjectMeta, "web-north": d.ObjectMeta} {
		if len(m.OwnerReferences) != 1 || m.Annotations["gridmesh.io/applied"] == "" {
			t.Errorf("%s: owners %v, annotations %v", name, m.OwnerReferences, m.Annotations)
		}
		for _, f := range m.ManagedFields {
			if f.Manager == "application-grid-controller" {
				t.Errorf("%s: the old controller still owns %s", name, f.FieldsV1)
			}
		}
	}
	stock, err := c.Kube.AppsV1().StatefulSets("default").Get(patient(t), "stock-north", metav1.GetOptions{})
	must(t, err)
	// New annotations raise the generation of a Deployment, and of nothing else.
	if diff := cmp.Diff(d0.Spec, d.Spec) + cmp.Diff(db0.Spec, stock.Spec); diff != "" || d.Generation != d0.Generation+1 || stock.Generation != db0.Generation {
		t.Errorf("generations %d and %d, were %d and %d:\n%s", d.Generation, stock.Generation, d0.Generation, db0.Generation, diff)
	}
	if d.Annotations["deployment.kubernetes.io/revision"] != "1" || d.Labels["team"] != "shops" {
		t.Errorf("web-north: annotations %v, labels %v", d.Annotations, d.Labels)
	}
	wait.Holds(t, 2*time.Second, func() error {
		if after := podUIDs(t); after != before {
			return fmt.Errorf("pods were replaced:\n%s\n%s", before, after)
		}
		return nil
	})
	out, err := c.Kubectl("get", "dg,ssg,sg")
	must(t, err)
	t.Logf("\n%s", out)
	if !strings.Contains(out, "UNITS   READY   UPDATED") {
		t.Errorf("kubectl get dg shows no units:\n%s", out)
	}
	mustRest(t, childWrites, wait.Settled(t, calm, func() float64 { return childWrites(t) }))
	if strings.Contains(p.Log(), "level=ERROR") {
		t.Errorf("errors in the log:\n%s", p.Log())
	}
}

// oldKinds makes the kinds of grids as SuperEdge's controller made them.
func oldKinds(t *testing.T) {
	t.Helper()
	for _, k := range [][4]string{{"DeploymentGrid", "deploymentgrids", "deploymentgrid", "dg"}, {"StatefulSetGrid", "statefulsetgrids", "statefulsetgrid", "ssg"}, {"ServiceGrid", "servicegrids", "servicegrid", "sg"}} {
		crd := strings.NewReplacer("KIND", k[0], "PLURAL", k[1], "SINGULAR", k[2], "SHORT", k[3]).Replace(oldCRD)
		if _, err := c.KubectlInput([]byte(crd), "replace", superEdge, "-f", "-"); err != nil {
			_, err = c.KubectlInput([]byte(crd), "create", superEdge, "-f", "-")
			must(t, err)
		}
	}
}

// oldChildren makes what SuperEdge's controller made of oldGrids.
func oldChildren(t *testing.T, pods func(name, selector string) string) {
	t.Helper()
	webs, stocks := ownedBy(t, "deploymentgrids", "DeploymentGrid", "web"), ownedBy(t, "statefulsetgrids", "StatefulSetGrid", "stock")
	create := func(text string) {
		_, err := c.KubectlInput([]byte(text), "create", superEdge, "-f", "-")
		must(t, err)
	}
	for _, unit := range []string{"north", "south"} {
		create(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web-` + unit + `, labels: {team: shops, superedge.io/grid-selector: web, superedge.io/grid-uniq-key: site}, ` + webs + `}, spec: {selector: {matchLabels: {app: web}}, template: ` + pods("web", "nodeSelector: {site: "+unit+"},") + `}}`)
		create(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: stock-` + unit + `, labels: {superedge.io/grid-selector: stock, superedge.io/grid-uniq-key: site}, ` + stocks + `}, spec: {replicas: 1, serviceName: stock, selector: {matchLabels: {app: stock}}, template: ` + pods("stock", "nodeSelector: {site: "+unit+"},") + `}}`)
	}
	create(`{apiVersion: v1, kind: Service, metadata: {name: web-svc, labels: {superedge.io/grid-selector: web, superedge.io/grid-uniq-key: site}, annotations: {topologyKeys: '["site"]'}}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: main}]}}`)
}

// ownedBy is the owner of an old child, as a part of its metadata.
func ownedBy(t *testing.T, resource, kind, name string) string {
	t.Helper()
	u, err := grids(t, resource).Get(patient(t), name, metav1.GetOptions{})
	must(t, err)
	return fmt.Sprintf("ownerReferences: [{apiVersion: superedge.io/v1, kind: %s, name: %s, uid: %s, controller: true, blockOwnerDeletion: true}]", kind, name, u.GetUID())
}

// podUIDs names the pods of the old children and their restarts.
func podUIDs(t *testing.T) string {
	t.Helper()
	var all []string
	for _, app := range []string{"stock", "web"} {
		list, err := c.WaitPods(patient(t), "default", "app="+app, 2)
		must(t, err)
		for _, pod := range list {
			all = append(all, fmt.Sprintf("%s %s %d", pod.Name, pod.UID, pod.Status.ContainerStatuses[0].RestartCount))
		}
	}
	return strings.Join(all, "\n")
}

// misplaced is a grid of SuperEdge's whose children all select the nodes of one
// unit (superedge/superedge#301).
const misplaced = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: till}
spec:
  gridUniqKey: site
  rollout: {PAUSED maxUnits: 1, pauseSeconds: 1}
  template: {replicas: 1, selector: {matchLabels: {app: till}}, template: PODS}
`

// Each child is taken over for the unit that it is named after, whatever its node
// selector says. No pod is replaced while the rollout is paused, nor before its
// unit's turn, nor ever where the selector was right.
func TestWrongNodeSelectorsAreMendedInWaves(t *testing.T) {
	nodes := map[string]string{"east": "a-1", "north": "a-2", "south": "b-1"}
	for unit, node := range nodes {
		inUnits(t, map[string]string{node: unit})
	}
	oldKinds(t)
	pods := func(selector string) string {
		return strings.NewReplacer("NAME", "till", "SELECTOR", selector).Replace(oldPods)
	}
	grid := func(paused string) string {
		return strings.NewReplacer("PAUSED", paused, "PODS", pods("")).Replace(misplaced)
	}
	applied(t, grid("paused: true,"), "deploymentgrid/till")
	owner := ownedBy(t, "deploymentgrids", "DeploymentGrid", "till")
	for unit := range nodes {
		_, err := c.KubectlInput([]byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: till-`+unit+`, labels: {superedge.io/grid-selector: till, superedge.io/grid-uniq-key: site}, `+owner+`}, spec: {replicas: 1, selector: {matchLabels: {app: till}}, template: `+pods("nodeSelector: {site: south},")+`}}`), "create", superEdge, "-f", "-")
		must(t, err)
	}
	for unit := range nodes {
		wait.Eventually(t, func() error { return readyChild("till-" + unit) })
	}
	before := map[string]string{}
	for unit := range nodes {
		before[unit] = podOf(t, "till-"+unit)
	}
	same := func(units ...string) error {
		for _, unit := range units {
			if now := podOf(t, "till-"+unit); now != before[unit] {
				return fmt.Errorf("the pod of %s was %s, and is %s", unit, before[unit], now)
			}
			if err := selects(t, unit, "south"); err != nil {
				return err
			}
		}
		return nil
	}

	controller(t)
	wait.Eventually(t, func() error {
		d, err := child("till-south")
		if err == nil && d.Annotations["gridmesh.io/applied"] == "" {
			err = fmt.Errorf("the child whose pod stays is not taken over: %v", d.Annotations)
		}
		return err
	})
	wait.Holds(t, calm, func() error { return same("east", "north", "south") })

	must(t, c.Apply(grid("")))
	wait.Eventually(t, func() error { return selects(t, "east", "east") })
	wait.Eventually(t, func() error {
		if err := selects(t, "north", "north"); err != nil {
			// Of what is looked at one after the other the first is the older.
			if early := same("north", "south"); early != nil && selects(t, "north", "north") != nil {
				t.Fatalf("before its turn: %v", early)
			}
			return err
		}
		return nil
	})
	if at := podOf(t, "till-east"); !strings.HasSuffix(at, " on "+nodes["east"]) {
		t.Errorf("north's wave began, and the pod of east is %s", at)
	}
	allReady(t, "deploymentgrids", "till", 3)
	for unit, node := range nodes {
		wait.Eventually(t, func() error {
			if at := podOf(t, "till-"+unit); !strings.HasSuffix(at, " on "+node) {
				return fmt.Errorf("the pod of %s is %s, want on %s", unit, at, node)
			}
			return nil
		})
	}
	must(t, same("south"))
}

// selects returns nil if a child selects the nodes of a unit, and nothing else.
func selects(t *testing.T, unit, want string) error {
	t.Helper()
	d, err := child("till-" + unit)
	if err == nil && !maps.Equal(d.Spec.Template.Spec.NodeSelector, map[string]string{"site": want}) {
		err = fmt.Errorf("till-%s selects %v, want site=%s", unit, d.Spec.Template.Spec.NodeSelector, want)
	}
	return err
}

// podOf says which pods a child has, and where.
func podOf(t *testing.T, child string) string {
	t.Helper()
	list, err := c.Pods(patient(t), "default", "app=till")
	must(t, err)
	var all []string
	for i := range list {
		if p := &list[i]; strings.HasPrefix(p.Name, child+"-") && p.DeletionTimestamp == nil {
			all = append(all, fmt.Sprintf("%s on %s", p.UID, p.Spec.NodeName))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
