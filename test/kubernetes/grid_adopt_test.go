package kubernetes

import (
	"fmt"
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
	for _, k := range [][4]string{{"DeploymentGrid", "deploymentgrids", "deploymentgrid", "dg"}, {"StatefulSetGrid", "statefulsetgrids", "statefulsetgrid", "ssg"}, {"ServiceGrid", "servicegrids", "servicegrid", "sg"}} {
		crd := strings.NewReplacer("KIND", k[0], "PLURAL", k[1], "SINGULAR", k[2], "SHORT", k[3]).Replace(oldCRD)
		if _, err := c.KubectlInput([]byte(crd), "replace", superEdge, "-f", "-"); err != nil {
			_, err = c.KubectlInput([]byte(crd), "create", superEdge, "-f", "-")
			must(t, err)
		}
	}
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
	mustRest(t, childWrites, childWrites(t))
	if strings.Contains(p.Log(), "level=ERROR") {
		t.Errorf("errors in the log:\n%s", p.Log())
	}
}

// oldChildren makes what SuperEdge's controller made of oldGrids.
func oldChildren(t *testing.T, pods func(name, selector string) string) {
	t.Helper()
	owner := func(resource, kind, name string) string {
		u, err := grids(t, resource).Get(patient(t), name, metav1.GetOptions{})
		must(t, err)
		return fmt.Sprintf("ownerReferences: [{apiVersion: superedge.io/v1, kind: %s, name: %s, uid: %s, controller: true, blockOwnerDeletion: true}]", kind, name, u.GetUID())
	}
	webs, stocks := owner("deploymentgrids", "DeploymentGrid", "web"), owner("statefulsetgrids", "StatefulSetGrid", "stock")
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
