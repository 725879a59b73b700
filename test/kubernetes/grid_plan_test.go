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
