package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// controller starts gridmesh-controller in the cloud, with the rights of deploy/.
func controller(t *testing.T, flags ...string) *edge.Process {
	t.Helper()
	kubeconfig, err := c.ControllerKubeconfig()
	must(t, err)
	return controllerAt(t, kubeconfig, flags...)
}

// outlastsAnOutage are the flags of a controller that keeps its lease while the API
// server starts again, however long that takes: nobody here starts it anew, as a
// Deployment would.
var outlastsAnOutage = []string{"--leader-elect-lease-duration", "6m", "--leader-elect-renew-deadline", "5m"}

// controllerAt starts gridmesh-controller with a kubeconfig.
func controllerAt(t *testing.T, kubeconfig string, flags ...string) *edge.Process {
	t.Helper()
	p, err := c.StartController(kubeconfig, append([]string{
		// A machine of one core must not lose the lease, nor wait long for a dead leader's.
		"--leader-elect-lease-duration", "12s", "--leader-elect-renew-deadline", "10s", "--leader-elect-retry-period", "500ms",
	}, flags...)...)
	must(t, err)
	t.Cleanup(func() {
		if code := p.ExitCode(); code > 0 {
			t.Errorf("the controller ended with %d:\n%s", code, p.Log())
		}
	})
	endsWith(t, p)
	return p
}

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
	ctx, cancel := context.WithTimeout(context.Background(), answers["tcp"])
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

// writes counts the mutating requests to grids, their status, their children
// and their revisions that the API server has answered; what controllers write
// into a child's status is not among them.
func writes(t *testing.T) float64 {
	t.Helper()
	n, err := c.Writes(patient(t), func(resource, sub string) bool {
		return isChild(resource, sub) || strings.HasSuffix(resource, "grids") && (sub == "" || sub == "status")
	})
	must(t, err)
	return n
}

// childWrites leaves out the grids themselves.
func childWrites(t *testing.T) float64 {
	t.Helper()
	n, err := c.Writes(patient(t), isChild)
	must(t, err)
	return n
}

func isChild(resource, sub string) bool {
	return sub == "" && slices.Contains([]string{"deployments", "statefulsets", "services", "controllerrevisions"}, resource)
}

// calm is how long nothing is written once everybody has written what there
// is to write about a change: the status above all, at most once a second.
const calm = 3 * time.Second

// mustRest: a count of writes does not go up from before.
func mustRest(t *testing.T, count func(*testing.T) float64, before float64) {
	t.Helper()
	wait.Holds(t, time.Second, func() error {
		if after := count(t); after != before {
			return fmt.Errorf("%g writes though nothing changed", after-before)
		}
		return nil
	})
}

// inUnits labels nodes with site=unit, until the test ends.
func inUnits(t *testing.T, units map[string]string) {
	t.Helper()
	for node, unit := range units {
		label(t, node, unit)
		t.Cleanup(func() { label(t, node, "") })
	}
}

// applied applies manifests, once the CRDs are there, and deletes them by kind
// and name when the test ends.
func applied(t *testing.T, text string, names ...string) {
	t.Helper()
	wait.Eventually(t, func() error { return c.Apply(text) })
	t.Cleanup(func() {
		_, err := c.Kubectl(append([]string{"delete", "--ignore-not-found", "--wait=true"}, names...)...)
		must(t, err)
	})
}

// grids reaches the grids of the default namespace.
func grids(t *testing.T, resource string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.RESTConfig())
	must(t, err)
	return client.Resource(schema.GroupVersionResource{Group: "superedge.io", Version: "v1", Resource: resource}).Namespace("default")
}

// statusOf reads the status of a DeploymentGrid or StatefulSetGrid.
func statusOf(t *testing.T, resource, name string) (*apiv1.WorkloadGridStatus, error) {
	t.Helper()
	u, err := grids(t, resource).Get(patient(t), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(u.Object["status"])
	must(t, err)
	st := &apiv1.WorkloadGridStatus{}
	return st, json.Unmarshal(data, st)
}

// allReady waits until all units of a grid are ready and updated, n of them.
func allReady(t *testing.T, resource, name string, n int64) time.Duration {
	t.Helper()
	return wait.Eventually(t, func() error {
		st, err := statusOf(t, resource, name)
		if err == nil && (st.Units != n || st.ReadyUnits != n || st.UpdatedUnits != n) {
			err = fmt.Errorf("%s/%s: %d units, %d ready, %d updated, want %d: %v", resource, name, st.Units, st.ReadyUnits, st.UpdatedUnits, n, st.Worst)
		}
		return err
	})
}

// hasCondition returns nil if a condition is as it is to be.
func hasCondition(list []metav1.Condition, name string, status metav1.ConditionStatus, word string) error {
	found := meta.FindStatusCondition(list, name)
	if found == nil || found.Status != status || !strings.Contains(found.Reason+": "+found.Message, word) {
		return fmt.Errorf("condition %s is %+v, want %s with %q", name, found, status, word)
	}
	return nil
}

// hasEvent returns nil if an object has an Event of a reason with a word in it.
func hasEvent(t *testing.T, name, reason, word string) error {
	t.Helper()
	list, err := c.Kube.CoreV1().Events("default").List(patient(t), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return err
	}
	var seen []string
	for _, e := range list.Items {
		if e.Reason == reason && strings.Contains(e.Message, word) {
			return nil
		}
		seen = append(seen, e.Reason+": "+e.Message)
	}
	return fmt.Errorf("%s has no Event %s with %q, only %q", name, reason, word, seen)
}

// deploymentGrid is a DeploymentGrid of the test's app. extra goes into its
// spec, version into the pods.
func deploymentGrid(name, extra, version string) string {
	return strings.NewReplacer("NAME", name, "EXTRA", extra, "VERSION", version).Replace(`
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: NAME}
spec:
  gridUniqKey: site
  EXTRA
  template: {` + podsOf + `}
`)
}

// podsOf is the spec of a workload of the test's app.
const podsOf = `selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: gridmesh.test/app, env: [{name: RELEASE, value: "VERSION"}], ports: [{name: main, containerPort: 8080}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}}]}}`
