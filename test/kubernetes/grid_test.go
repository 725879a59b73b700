package kubernetes

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const gridManifest = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: till, labels: {team: shops}}
spec:
  gridUniqKey: site
  template:
    selector: {matchLabels: {app: till}}
    template:
      metadata: {labels: {app: till}}
      spec:
        terminationGracePeriodSeconds: 1
        containers:
        - {name: app, image: gridmesh.test/app, ports: [{name: main, containerPort: 8080}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}, resources: {requests: {cpu: "0.010"}}}
---
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: till}
spec:
  gridUniqKey: site
  template: {selector: {app: till}, ports: [{name: main, port: 80, targetPort: main}]}
`

// Three manifests' worth: every unit runs the app and talks to itself, a new
// unit comes alive when a node is labelled, and one that vanishes is kept for
// a while.
func TestGrids(t *testing.T) {
	for node, unit := range map[string]string{"a-1": "north", "a-2": "north", "b-1": "south", "b-2": ""} {
		label(t, node, unit)
		t.Cleanup(func() { label(t, node, "") })
	}
	first := controller(t, "--removal-grace", "2s")
	wait.Eventually(t, func() error { // while a program is being loaded its environment is empty
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", first.PID()))
		if err == nil && !strings.Contains(string(env), "KUBE_CACHE_MUTATION_DETECTOR=true") {
			err = fmt.Errorf("nobody looks whether the controller writes to what its informers hold (%d bytes of environment)", len(env))
		}
		return err
	})
	wait.Eventually(t, func() error { return c.Apply(gridManifest) }) // when the CRDs are there
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "--wait=true", "deploymentgrid/till", "servicegrid/till")
		must(t, err)
	})
	took := wait.Eventually(t, func() error {
		if err := readyChild("till-north"); err != nil {
			return err
		}
		return readyChild("till-south")
	})
	t.Logf("both units are ready after %s", took)

	d, err := child("till-south")
	must(t, err)
	if got := d.Spec.Template.Spec.NodeSelector["site"]; got != "south" {
		t.Errorf("node selector of till-south: %q", got)
	}
	for key, want := range map[string]string{"superedge.io/grid-selector": "till", "superedge.io/grid-uniq-key": "site", "team": "shops"} {
		if d.Labels[key] != want {
			t.Errorf("label %s of till-south is %q, want %q", key, d.Labels[key], want)
		}
	}
	svc, err := c.Kube.CoreV1().Services("default").Get(patient(t), "till-svc", metav1.GetOptions{})
	must(t, err)
	if svc.Annotations["topologyKeys"] != `["site"]` || len(svc.OwnerReferences) != 1 {
		t.Errorf("till-svc: %v, owners %v", svc.Annotations, svc.OwnerReferences)
	}
	to := mustAddrPort(svc.Spec.ClusterIP, 80)
	for node, prefix := range map[string]string{"a-1": "till-north-", "a-2": "till-north-", "b-1": "till-south-"} {
		wait.Eventually(t, func() error {
			for range 6 {
				if got, err := ask(c.Nodes[node].NS, "tcp", to); err != nil || !strings.HasPrefix(got.Name, prefix) {
					return fmt.Errorf("%s is answered by %q, want %s*: %w", node, got.Name, prefix, err)
				}
			}
			return nil
		})
	}

	label(t, "b-2", "west")
	took = wait.Eventually(t, func() error { return readyChild("till-west") })
	t.Logf("a new unit is ready %s after its node was labelled", took)

	gridsHold(t)
	gridsHeal(t)
	gridsSurvive(t, first)
}

// gridsHold: nothing changed, nothing is written.
func gridsHold(t *testing.T) {
	t.Helper()
	// The workload controllers still write about the new unit, and its status is written.
	before := wait.Settled(t, calm, func() float64 { return writes(t) })
	if before == 0 {
		t.Fatal("no write is counted at all")
	}
	for i := range 5 { // each wakes the controller with nothing
		_, err := c.Kubectl("annotate", "--overwrite", "node", "a-1", fmt.Sprintf("poke=%d", i))
		must(t, err)
		time.Sleep(300 * time.Millisecond) // apart, or one look would be enough for all
	}
	mustRest(t, writes, before)
}

// byWatch is how long a change may take that comes to the controller by a
// watch: less than the 30 s after which it looks at all grids anyway, which
// would hide that a watch, or the wake-up after it, was lost.
const byWatch = 25 * time.Second

// gridsHeal: what is changed or deleted by hand comes back, what another
// manager scales stays.
func gridsHeal(t *testing.T) {
	t.Helper()
	_, err := c.Kubectl("set", "image", "deployment/till-south", "app=nonsense")
	must(t, err)
	took := wait.Within(t, byWatch, func() error {
		d, err := child("till-south")
		if err == nil && d.Spec.Template.Spec.Containers[0].Image != "gridmesh.test/app" {
			err = fmt.Errorf("image is %s", d.Spec.Template.Spec.Containers[0].Image)
		}
		return err
	})
	t.Logf("a change by hand was undone after %s", took)
	_, err = c.Kubectl("delete", "deployment/till-west")
	must(t, err)
	took = wait.Eventually(t, func() error { return readyChild("till-west") })
	t.Logf("a deleted child was back and ready after %s", took)
	_, err = c.Kubectl("scale", "deployment/till-south", "--replicas=2")
	must(t, err)
	_, err = c.Kubectl("patch", "deploymentgrid/till", "--type=merge", "-p", `{"metadata":{"labels":{"team":"others"}}}`)
	must(t, err)
	wait.Within(t, byWatch, func() error {
		d, err := child("till-south")
		if err == nil && d.Labels["team"] != "others" {
			err = fmt.Errorf("label is %s", d.Labels["team"])
		}
		return err
	})
	if d, err := child("till-south"); err != nil || *d.Spec.Replicas != 2 {
		t.Errorf("scaled to 2, has %d: %v", *d.Spec.Replicas, err)
	}
}

// gridsSurvive: the leader is killed, another takes over; a unit that vanishes
// is held, then removed; the grid's deletion takes everything with it.
func gridsSurvive(t *testing.T, first *edge.Process) {
	t.Helper()
	controller(t, "--removal-grace", "10s") // long enough to be seen as held
	first.Kill()
	start := time.Now()
	label(t, "b-2", "")
	wait.Eventually(t, func() error {
		d, err := child("till-west")
		if err == nil && d.Annotations["gridmesh.io/unit-gone-since"] == "" {
			err = fmt.Errorf("till-west is not held: %v", d.Annotations)
		}
		return err
	})
	t.Logf("the other replica took over %s after the leader was killed", time.Since(start))
	took := wait.Eventually(t, func() error {
		if _, err := child("till-west"); err == nil {
			return fmt.Errorf("till-west is still there")
		}
		return nil
	})
	t.Logf("a vanished unit was removed after %s", took)
	_, err := c.Kubectl("delete", "--wait=true", "deploymentgrid/till", "servicegrid/till")
	must(t, err)
	wait.Eventually(t, func() error {
		if _, err := child("till-north"); err == nil {
			return fmt.Errorf("till-north is still there")
		}
		return nil
	})
}
