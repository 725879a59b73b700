package kubernetes

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// An autoscaler, kubectl rollout restart, a release by label, and manifests
// that are applied again and again: each keeps what is his, and nobody writes
// for ever.
func TestGridsAmongOthers(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south", "b-2": "west"})
	controller(t)
	manifest := deploymentGrid("hpa", "", "1")
	applied(t, manifest, "deploymentgrid/hpa", "deployment/hpa-west", "deployment/copy", "hpa/hpa-north")
	allReady(t, "deploymentgrids", "hpa", 3)

	must(t, c.Apply(`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: hpa-north}, spec: {minReplicas: 2, maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: hpa-north}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}`))
	replicas := func(name string, want int32) {
		t.Helper()
		wait.Eventually(t, func() error {
			d, err := child(name)
			if err == nil && (d.Spec.Replicas == nil || *d.Spec.Replicas != want || d.Status.ReadyReplicas != want) {
				err = fmt.Errorf("%s: spec %v, %d ready, want %d", name, d.Spec.Replicas, d.Status.ReadyReplicas, want)
			}
			return err
		})
	}
	replicas("hpa-north", 2)
	_, err := c.Kubectl("rollout", "restart", "deployment/hpa-south")
	must(t, err)
	allReady(t, "deploymentgrids", "hpa", 3)

	// A change of the grid leaves both alone.
	must(t, c.Apply(deploymentGrid("hpa", "", "2")))
	wait.Eventually(t, func() error {
		d, err := child("hpa-south")
		if err == nil && d.Spec.Template.Spec.Containers[0].Env[0].Value != "2" {
			err = fmt.Errorf("hpa-south runs %s", d.Spec.Template.Spec.Containers[0].Env[0].Value)
		}
		return err
	})
	replicas("hpa-north", 2)
	d, err := child("hpa-south")
	must(t, err)
	if d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Error("the restart's annotation is gone")
	}

	// The template's value changes: it is everybody's. It goes again: what the
	// grid owns alone is not dropped to 1.
	must(t, c.Apply(deploymentGrid("hpa", "", "2")+"  # three\n"))
	_, err = c.Kubectl("patch", "deploymentgrid/hpa", "--type=merge", "-p", `{"spec":{"template":{"replicas":3}}}`)
	must(t, err)
	replicas("hpa-south", 3)
	_, err = c.Kubectl("patch", "deploymentgrid/hpa", "--type=json", "-p", `[{"op":"remove","path":"/spec/template/replicas"}]`)
	must(t, err)
	allReady(t, "deploymentgrids", "hpa", 3)
	replicas("hpa-south", 3)

	// Let go by its label: it stays, without an owner, and the unit gets another.
	_, err = c.Kubectl("label", "--overwrite", "deployment/hpa-west", "superedge.io/grid-selector=mine")
	must(t, err)
	wait.Eventually(t, func() error {
		d, err := child("hpa-west")
		if err == nil && (len(d.OwnerReferences) > 0 || d.Annotations["gridmesh.io/applied"] != "") {
			err = fmt.Errorf("hpa-west has owners %v, annotations %v", d.OwnerReferences, d.Annotations)
		}
		return err
	})
	getsAnother(t, "hpa", "west")
	allReady(t, "deploymentgrids", "hpa", 3)
	wait.Eventually(t, func() error { return hasEvent(t, "hpa", "Released", "unit west") })

	// What only bears the labels takes no unit's place from what the grid made.
	must(t, c.Apply(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: copy, labels: {superedge.io/grid-selector: hpa, superedge.io/grid-uniq-key: site}}, spec: {replicas: 0, selector: {matchLabels: {app: copy}}, template: {metadata: {labels: {app: copy}}, spec: {nodeSelector: {site: south}, containers: [{name: app, image: gridmesh.test/app}]}}}}`))
	wait.Eventually(t, func() error { return hasEvent(t, "hpa", "LeftAlone", "Deployment copy bears the labels of unit south") })
	must(t, again(t))
	for name, owners := range map[string]int{"copy": 0, "hpa-south": 1} {
		d, err := child(name)
		must(t, err)
		if len(d.OwnerReferences) != owners || d.Annotations["gridmesh.io/unit-gone-since"] != "" {
			t.Errorf("%s has owners %v, annotations %v", name, d.OwnerReferences, d.Annotations)
		}
	}
}

// getsAnother waits until a unit has a child of another name than its first.
func getsAnother(t *testing.T, grid, unit string) {
	t.Helper()
	wait.Eventually(t, func() error {
		if name := children(t, grid)[unit]; name == grid+"-"+unit || name == "" {
			return fmt.Errorf("the child of %s is %q", unit, name)
		}
		return nil
	})
}

// again applies the same grid as GitOps tools do, by both ways, and counts the
// writes to children.
func again(t *testing.T) error {
	t.Helper()
	manifest := deploymentGrid("hpa", "", "2")
	must(t, c.Apply(manifest))
	_, err := c.KubectlInput([]byte(manifest), "apply", "--server-side", "--force-conflicts", "-f", "-")
	must(t, err)
	allReady(t, "deploymentgrids", "hpa", 3)
	before := wait.Settled(t, calm, func() float64 { return childWrites(t) })
	version := gridVersion(t, "hpa")
	for range 3 {
		must(t, c.Apply(manifest))
		_, err := c.KubectlInput([]byte(manifest), "apply", "--server-side", "--force-conflicts", "-f", "-")
		must(t, err)
		if out, err := c.KubectlInput([]byte(manifest), "diff", "-f", "-"); err != nil || out != "" {
			return fmt.Errorf("kubectl diff: %w\n%s", err, out)
		}
	}
	mustRest(t, childWrites, before)
	if now := gridVersion(t, "hpa"); now != version {
		return fmt.Errorf("the grid went from version %s to %s", version, now)
	}
	return nil
}

func gridVersion(t *testing.T, name string) string {
	t.Helper()
	u, err := grids(t, "deploymentgrids").Get(patient(t), name, metav1.GetOptions{})
	must(t, err)
	return fmt.Sprint(u.GetGeneration())
}
