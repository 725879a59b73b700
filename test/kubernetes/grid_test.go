package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// controller starts gridmesh-controller in the cloud, with the rights of deploy/.
func controller(t *testing.T, flags ...string) *edge.Process {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(edge.Root(), "deploy/controller.yaml"))
	must(t, err)
	docs := strings.Split(string(text), "\n---\n")
	rights := []string{"{apiVersion: v1, kind: Namespace, metadata: {name: gridmesh}}"}
	for _, doc := range docs {
		if !strings.Contains(doc, "kind: Deployment\n") {
			rights = append(rights, doc)
		}
	}
	_, err = c.KubectlInput([]byte(strings.Join(rights, "\n---\n")), "apply", "-f", "-")
	must(t, err)
	kubeconfig, err := c.ServiceAccountKubeconfig("gridmesh-controller")
	must(t, err)
	p, err := edge.Start(c.Lab.Cloud, "controller", append([]string{
		edge.Binary("gridmesh-controller"), "--kubeconfig", kubeconfig, "--healthz-bind-address", "", "--metrics-bind-address", "",
		"--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s", "--leader-elect-retry-period", "500ms",
	}, flags...)...)
	must(t, err)
	t.Cleanup(func() {
		p.Signal(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("controller:\n%s", p.Log())
		}
	})
	return p
}

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

func label(t *testing.T, node, value string) {
	t.Helper()
	arg := "site=" + value
	if value == "" {
		arg = "site-"
	}
	_, err := c.Kubectl("label", "--overwrite", "node", node, arg)
	must(t, err)
}

func child(name string) (*appsv1.Deployment, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.Kube.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
}

func readyChild(name string) error {
	d, err := child(name)
	if err == nil && d.Status.ReadyReplicas < 1 {
		err = fmt.Errorf("%s has %d ready replicas", name, d.Status.ReadyReplicas)
	}
	return err
}

// Three manifests' worth: every unit runs the app and talks to itself, a new
// unit comes alive when a node is labelled, and one that vanishes is kept for
// a while.
func TestGrids(t *testing.T) {
	for node, unit := range map[string]string{"a-1": "north", "a-2": "north", "b-1": "south", "b-2": ""} {
		label(t, node, unit)
		t.Cleanup(func() { label(t, node, "") })
	}
	first := controller(t, "--removal-grace", "2s")
	eventually(t, 30*time.Second, func() error { return c.Apply(gridManifest) }) // when the CRDs are there
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "--wait=true", "deploymentgrid/till", "servicegrid/till")
		must(t, err)
	})
	took := eventually(t, 60*time.Second, func() error {
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
	svc, err := c.Kube.CoreV1().Services("default").Get(deadline(t, 10*time.Second), "till-svc", metav1.GetOptions{})
	must(t, err)
	if svc.Annotations["topologyKeys"] != `["site"]` || len(svc.OwnerReferences) != 1 {
		t.Errorf("till-svc: %v, owners %v", svc.Annotations, svc.OwnerReferences)
	}
	to := mustAddrPort(svc.Spec.ClusterIP, 80)
	for node, prefix := range map[string]string{"a-1": "till-north-", "a-2": "till-north-", "b-1": "till-south-"} {
		eventually(t, 10*time.Second, func() error {
			for range 6 {
				if got, err := ask(c.Nodes[node].NS, "tcp", to); err != nil || !strings.HasPrefix(got.Name, prefix) {
					return fmt.Errorf("%s is answered by %q, want %s*: %w", node, got.Name, prefix, err)
				}
			}
			return nil
		})
	}

	label(t, "b-2", "west")
	took = eventually(t, 30*time.Second, func() error { return readyChild("till-west") })
	t.Logf("a new unit is ready %s after its node was labelled", took)

	gridsHold(t)
	gridsHeal(t)
	gridsSurvive(t, first)
}

// What the CRDs can refuse they refuse, and a name that somebody else has is
// left to him, while the grid's other units go on.
func TestGridBadInput(t *testing.T) {
	label(t, "a-1", "north")
	label(t, "b-1", "south")
	t.Cleanup(func() { label(t, "a-1", ""); label(t, "b-1", "") })
	p := controller(t)
	const body = `spec: {gridUniqKey: KEY, template: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: gridmesh.test/app}]}}}}}`
	grid := func(name, key string) string {
		return "{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: " + name + "}, " + strings.Replace(body, "KEY", key, 1)
	}
	eventually(t, 30*time.Second, func() error { return c.Apply(grid("sound", "site")) })
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "--wait=true", "deploymentgrid/sound", "deploymentgrid/owned", "deployment/owned-south")
		must(t, err)
	})
	for text, want := range map[string]string{
		grid("nokey", `""`):                    "gridUniqKey",
		grid(strings.Repeat("x", 100), "site"): "no more than 63 characters",
		"{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: bare}, spec: {gridUniqKey: site}}": "template",
		grid("nolabel", "a/b/c"):  "must be a label key of nodes",
		grid("nounit", `"site "`): "must be a label key of nodes",
		strings.Replace(grid("deaf", "site"), "labels: {app: x}", "labels: {app: y}", 1):                          "selector.matchLabels must be among template.metadata.labels",
		strings.Replace(grid("unselected", "site"), "selector: {matchLabels: {app: x}}", "selector: {}", 1):       "selector must not be empty",
		strings.Replace(grid("missing", "site"), "selector: {matchLabels: {app: x}}, ", "", 1):                    "selector: Required value",
		strings.Replace(grid("nopool", "site"), "spec: {", "spec: {templates: {north: canary}, ", 1):              "must name entries of spec.templatePool",
		strings.Replace(grid("nodefault", "site"), "spec: {", "spec: {defaultTemplateName: canary, ", 1):          "must name an entry of spec.templatePool",
		strings.Replace(grid("nowave", "site"), "spec: {", "spec: {rollout: {maxUnits: 120%}, ", 1):               "a percentage up to 100%",
		strings.Replace(grid("nullwave", "site"), "spec: {", "spec: {rollout: {maxUnits: 0}, ", 1):                "must be a number from 1",
		strings.Replace(grid("badpool", "site"), "spec: {", "spec: {templatePool: {canary: {template: {}}}, ", 1): "spec.templatePool.canary.selector: Required value",
	} {
		if err := c.Apply(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want a word on %q", text, err, want)
		}
	}
	must(t, c.Apply(strings.NewReplacer("NAME", "owned-south").Replace(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAME, labels: {mine: "yes"}}, spec: {replicas: 0, selector: {matchLabels: {app: mine}}, template: {metadata: {labels: {app: mine}}, spec: {containers: [{name: app, image: gridmesh.test/app}]}}}}`)))
	must(t, c.Apply(grid("owned", "site")))
	eventually(t, 30*time.Second, func() error { return readyChild("owned-north") })
	eventually(t, 10*time.Second, func() error {
		if !strings.Contains(p.Log(), "is not this grid's") || !strings.Contains(p.Log(), "owned-south") {
			return fmt.Errorf("the log does not name owned-south:\n%s", p.Log())
		}
		return nil
	})
	if d, err := child("owned-south"); err != nil || d.Labels["mine"] != "yes" || d.Spec.Template.Labels["app"] != "mine" || len(d.OwnerReferences) > 0 {
		t.Errorf("somebody's Deployment was taken: %v, %v", d.Labels, err)
	}
}

// writes counts the mutating requests to grids and their children that the API
// server has answered; what controllers write into a status is not among them.
func writes(t *testing.T) (n float64) {
	t.Helper()
	text, err := c.Kubectl("get", "--raw", "/metrics")
	must(t, err)
	line := regexp.MustCompile(`^apiserver_request_total\{.*resource="(?:deployments|statefulsets|services|\w+grids)".*subresource="".*verb="(?:APPLY|PATCH|PUT|POST|DELETE)".*\} (\S+)$`)
	for text := range strings.Lines(text) {
		if m := line.FindStringSubmatch(strings.TrimSpace(text)); m != nil {
			v, err := strconv.ParseFloat(m[1], 64)
			must(t, err)
			n += v
		}
	}
	return n
}

// gridsHold: nothing changed, nothing is written.
func gridsHold(t *testing.T) {
	t.Helper()
	time.Sleep(time.Second) // for what the workload controllers still do about the new unit
	before := writes(t)
	if before == 0 {
		t.Fatal("no write is counted at all")
	}
	for i := range 5 { // each wakes the controller with nothing
		_, err := c.Kubectl("annotate", "--overwrite", "node", "a-1", fmt.Sprintf("poke=%d", i))
		must(t, err)
		time.Sleep(300 * time.Millisecond)
	}
	if after := writes(t); after != before {
		t.Errorf("%g writes though nothing changed", after-before)
	}
}

// gridsHeal: what is changed or deleted by hand comes back, what another
// manager scales stays.
func gridsHeal(t *testing.T) {
	t.Helper()
	_, err := c.Kubectl("set", "image", "deployment/till-south", "app=nonsense")
	must(t, err)
	took := eventually(t, 15*time.Second, func() error {
		d, err := child("till-south")
		if err == nil && d.Spec.Template.Spec.Containers[0].Image != "gridmesh.test/app" {
			err = fmt.Errorf("image is %s", d.Spec.Template.Spec.Containers[0].Image)
		}
		return err
	})
	t.Logf("a change by hand was undone after %s", took)
	_, err = c.Kubectl("delete", "deployment/till-west")
	must(t, err)
	took = eventually(t, 15*time.Second, func() error { return readyChild("till-west") })
	t.Logf("a deleted child was back and ready after %s", took)
	_, err = c.Kubectl("scale", "deployment/till-south", "--replicas=2")
	must(t, err)
	_, err = c.Kubectl("patch", "deploymentgrid/till", "--type=merge", "-p", `{"metadata":{"labels":{"team":"others"}}}`)
	must(t, err)
	eventually(t, 15*time.Second, func() error {
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
	controller(t, "--removal-grace", "2s")
	first.Kill()
	start := time.Now()
	label(t, "b-2", "")
	eventually(t, 30*time.Second, func() error {
		d, err := child("till-west")
		if err == nil && d.Annotations["gridmesh.io/unit-gone-since"] == "" {
			err = fmt.Errorf("till-west is not held: %v", d.Annotations)
		}
		return err
	})
	t.Logf("the other replica took over %s after the leader was killed", time.Since(start))
	took := eventually(t, 60*time.Second, func() error {
		if _, err := child("till-west"); err == nil {
			return fmt.Errorf("till-west is still there")
		}
		return nil
	})
	t.Logf("a vanished unit was removed after %s", took)
	_, err := c.Kubectl("delete", "--wait=true", "deploymentgrid/till", "servicegrid/till")
	must(t, err)
	eventually(t, 30*time.Second, func() error {
		if _, err := child("till-north"); err == nil {
			return fmt.Errorf("till-north is still there")
		}
		return nil
	})
}

// A child that SuperEdge's controller made is adopted: the same pod goes on,
// and what the old controller owned is gridmesh's.
func TestGridAdoptsSuperEdgesChildren(t *testing.T) {
	label(t, "a-1", "north")
	t.Cleanup(func() { label(t, "a-1", "") })
	const spec = `selector: {matchLabels: {app: legacy}}, template: {metadata: {labels: {app: legacy}}, spec: {SELECTOR terminationGracePeriodSeconds: 1, containers: [{name: app, image: gridmesh.test/app, ports: [{name: main, containerPort: 8080}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}}]}}`
	old := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: legacy-north, labels: {superedge.io/grid-selector: legacy, superedge.io/grid-uniq-key: site}}, spec: {replicas: 1, ` + strings.Replace(spec, "SELECTOR", "nodeSelector: {site: north},", 1) + `}}`
	_, err := c.KubectlInput([]byte(old), "create", "--field-manager=application-grid-controller", "-f", "-")
	must(t, err)
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--ignore-not-found", "--wait=true", "deploymentgrid/legacy", "deployment/legacy-north")
		must(t, err)
	})
	eventually(t, 30*time.Second, func() error { return readyChild("legacy-north") })
	before, err := c.WaitPods(deadline(t, 30*time.Second), "default", "app=legacy", 1)
	must(t, err)
	controller(t)
	eventually(t, 30*time.Second, func() error {
		return c.Apply(`{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: legacy}, spec: {gridUniqKey: site, template: {` + strings.Replace(spec, "SELECTOR", "", 1) + `}}}`)
	})
	eventually(t, 15*time.Second, func() error {
		d, err := child("legacy-north")
		if err == nil && (d.Annotations["gridmesh.io/applied"] == "" || len(d.OwnerReferences) != 1) {
			err = fmt.Errorf("not adopted: %v, owners %v", d.Annotations, d.OwnerReferences)
		}
		return err
	})
	d, err := child("legacy-north")
	must(t, err)
	for _, m := range d.ManagedFields {
		if m.Manager == "application-grid-controller" {
			t.Errorf("the old controller still owns %s", m.FieldsV1)
		}
	}
	time.Sleep(2 * time.Second)
	after, err := c.WaitPods(deadline(t, 30*time.Second), "default", "app=legacy", 1)
	must(t, err)
	if revision := d.Annotations["deployment.kubernetes.io/revision"]; before[0].UID != after[0].UID || revision != "1" {
		t.Errorf("the pod was replaced: %s, %s; revision %s", before[0].UID, after[0].UID, revision)
	}
}
