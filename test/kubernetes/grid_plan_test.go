package kubernetes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// manifests is what gridmesh grid plan -o yaml prints of a file, planned in the
// cloud.
func manifests(t *testing.T, file string, more ...string) []byte {
	t.Helper()
	var out, log bytes.Buffer
	cmd := exec.Command(edge.Binary("gridmesh"), slices.Concat([]string{"grid", "plan", "-o", "yaml", "-f", file}, more)...)
	cmd.Stdout, cmd.Stderr = &out, &log
	must(t, c.Lab.Cloud.Start(cmd))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), log.String())
	}
	return out.Bytes()
}

// What a plan prints as YAML is what kubectl applies: of manifests alone, of
// which the API server knows no owner yet, and over what the cluster has.
func TestPlanIsApplied(t *testing.T) {
	dryRun := func(planned []byte, want ...string) {
		t.Helper()
		out, err := c.KubectlInput(planned, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		if err != nil {
			t.Errorf("kubectl apply: %v\n%s\nof\n%s", err, out, planned)
		}
		for _, line := range want {
			if !strings.Contains(out, line) {
				t.Errorf("kubectl says\n%s\nwant %q", out, line)
			}
		}
	}
	dryRun(manifests(t, filepath.Join(edge.Root(), "examples", "grids")),
		"deployment.apps/till-north created (server dry run)", "deployment.apps/till-south created (server dry run)", "service/till-svc created (server dry run)")

	controller(t)
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	grid := `{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: planned}, spec: {gridUniqKey: site, template: {replicas: 0, selector: {matchLabels: {app: planned}}, template: {metadata: {labels: {app: planned}}, spec: {containers: [{name: app, image: gridmesh.test/app}]}}}}}`
	applied(t, grid, "deploymentgrid/planned")
	file := filepath.Join(t.TempDir(), "planned.yaml")
	must(t, os.WriteFile(file, []byte(strings.Replace(grid, "replicas: 0", "replicas: 0, minReadySeconds: 7", 1)), 0o600))
	dryRun(manifests(t, file, "--kubeconfig", c.Kubeconfig), "deployment.apps/planned-north ", "deployment.apps/planned-south ")
}

// What a plan says of fields and types is what the API server says: of a grid
// that is written, or of its child. Where a plan has no child for it, nothing of
// it reaches the API server.
func TestPlanKnowsWhatIsRefused(t *testing.T) {
	controller(t)
	inUnits(t, map[string]string{"a-1": "north"})
	const sound = `{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: fields, labels: {app: a}}, spec: {gridUniqKey: site, rollout: {maxUnits: 1, pauseSeconds: 5, paused: false}, template: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: app, image: gridmesh.test/app, env: [{name: PORT, value: "80"}], resources: {limits: {cpu: 100m}}}]}}}}}`
	refused := func(grid string) bool {
		file := filepath.Join(t.TempDir(), "grid.yaml")
		must(t, os.WriteFile(file, []byte(grid), 0o600))
		if _, err := c.KubectlInput([]byte(grid), "apply", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
			return true
		}
		_, err := c.KubectlInput(manifests(t, file, "--lenient", "--kubeconfig", c.Kubeconfig), "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
		return err != nil
	}
	planned := func(grid string) bool {
		file := filepath.Join(t.TempDir(), "grid.yaml")
		must(t, os.WriteFile(file, []byte(grid), 0o600))
		cmd := exec.Command(edge.Binary("gridmesh"), "grid", "plan", "-f", file, "--kubeconfig", c.Kubeconfig)
		must(t, c.Lab.Cloud.Start(cmd))
		return cmd.Wait() == nil
	}
	for _, change := range [][2]string{
		{"", ""},
		{"paused: false", `paused: "yes"`},
		{"pauseSeconds: 5", "pauseSeconds: 10m"},
		{"maxUnits: 1", "maxUnits: [1]"},
		{"rollout:", "rolout:"},
		{"labels: {app: a}}, spec: {grid", "labels: {app: 1}}, spec: {grid"},
		{"replicas: 0", `replicas: "3"`},
		{"selector: {matchLabels", "selectr: {}, selector: {matchLabels"},
		{"image:", "imgae:"},
		{`value: "80"`, "value: 80"},
		{"cpu: 100m", "cpu: lots"},
		{"containers: [", "containers: {}, volumes: ["},
	} {
		grid := strings.Replace(sound, change[0], change[1], 1)
		want := change[0] == ""
		if server, plan := !refused(grid), planned(grid); server != want || plan != want {
			t.Errorf("%q: the API server takes it: %v, a plan: %v", change[1], server, plan)
		}
	}
}

// What a plan says of fields that Kubernetes never changes, and of ports of Services,
// is what the API server says of the child.
func TestPlanForeseesRefusedChildren(t *testing.T) {
	controller(t)
	inUnits(t, map[string]string{"a-1": "north"})
	const set = `{apiVersion: superedge.io/v1, kind: StatefulSetGrid, metadata: {name: fixed}, spec: {gridUniqKey: site, template: {replicas: 0, serviceName: names, selector: {matchLabels: {app: fixed}}, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], template: {metadata: {labels: {app: fixed, tier: a}}, spec: {containers: [{name: app, image: gridmesh.test/app}]}}}}}`
	const deployment = `{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: fixed}, spec: {gridUniqKey: site, template: {replicas: 0, selector: {matchLabels: {app: fixed}}, template: {metadata: {labels: {app: fixed, tier: a}}, spec: {containers: [{name: app, image: gridmesh.test/app}]}}}}}`
	const service = `{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: fixed}, spec: {gridUniqKey: site, template: {selector: {app: fixed}, ports: [{name: a, port: 80}, {name: b, port: 443}]}}}`
	applied(t, "{apiVersion: v1, kind: Service, metadata: {name: names}, spec: {clusterIP: None, selector: {app: fixed}}}", "service/names")
	applied(t, set, "statefulsetgrid/fixed")
	applied(t, deployment, "deploymentgrid/fixed")
	allReady(t, "statefulsetgrids", "fixed", 1)
	allReady(t, "deploymentgrids", "fixed", 1)
	for _, tc := range []struct {
		grid, from, to string
		fine           bool
	}{
		{grid: set, from: "tier: a", to: "tier: b", fine: true},
		{grid: set, from: "replicas: 0", to: "replicas: 0, podManagementPolicy: OrderedReady", fine: true},
		{grid: set, from: "replicas: 0", to: "replicas: 0, podManagementPolicy: Parallel"},
		{grid: set, from: "serviceName: names", to: "serviceName: fixed-svc"},
		{grid: set, from: "serviceName: names, ", to: ""},
		{grid: set, from: "1Gi", to: "2Gi"},
		{grid: set, from: "1Gi", to: "1024Mi", fine: true},
		{grid: set, from: "matchLabels: {app: fixed}", to: "matchLabels: {app: fixed, tier: a}"},
		{grid: deployment, from: "tier: a", to: "tier: b", fine: true},
		{grid: deployment, from: "matchLabels: {app: fixed}", to: "matchLabels: {app: fixed, tier: a}"},
		{grid: service, fine: true},
		{grid: service, from: "name: a, ", to: ""},
		{grid: service, from: "name: b", to: "name: a"},
		{grid: service, from: "name: b, port: 443", to: "name: b, port: 80"},
		{grid: service, from: "name: b", to: "name: B"},
		{grid: service, from: "ports: [{name: a, port: 80}, {name: b, port: 443}]", to: "type: ClusterIP"},
	} {
		file := filepath.Join(t.TempDir(), "grid.yaml")
		must(t, os.WriteFile(file, []byte(strings.Replace(tc.grid, tc.from, tc.to, 1)), 0o600))
		_, err := c.KubectlInput(manifests(t, file, "--lenient", "--kubeconfig", c.Kubeconfig), "apply", "--server-side", "--force-conflicts", "--field-manager=gridmesh-controller", "--dry-run=server", "-f", "-")
		cmd := exec.Command(edge.Binary("gridmesh"), "grid", "plan", "-f", file, "--kubeconfig", c.Kubeconfig)
		must(t, c.Lab.Cloud.Start(cmd))
		if planned := cmd.Wait(); (err == nil) != tc.fine || (planned == nil) != tc.fine {
			t.Errorf("%q: the API server says %v, a plan %v", tc.to, err, planned)
		}
	}
}
