package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// The chart that is in the repository is the one that deploy/ makes.
func TestChartIsGenerated(t *testing.T) {
	made, err := templates(filepath.Join(root, "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "deploy/helm/gridmesh/templates")
	there, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(there) != len(made) {
		t.Errorf("there are %d templates, %d are made (%v): make generate", len(there), len(made), err)
	}
	for name, want := range made {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is not what deploy/ makes (%v): make generate", name, err)
		}
	}
}

// Each manifest of the kustomization is in the chart, and of its components' node health's and the webhook's.
func TestChartHasEveryManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "resources: [")
	list, _, _ = strings.Cut(list, "]")
	names := append(strings.Split(list, ", "), "health/health.yaml", "admission/admission.yaml")
	for _, name := range names {
		if _, ok := places[name]; !ok {
			t.Errorf("deploy/%s is not in the chart", name)
		}
	}
	if len(names) != len(places) {
		t.Errorf("the kustomization has %q", names)
	}
}

// What a manifest has no more, or twice, is told with its place, and nothing is made.
func TestMissingPlaceIsTold(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "deploy"))); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string][2]string{
		"agent.yaml has 0 times": {"memory: 300Mi", "memory: 301Mi"},
		"agent.yaml has 2 times": {"          image: gridmesh-agent\n", "          image: gridmesh-agent\n          image: gridmesh-agent\n"},
		"would be Helm's":        {"# The API server's", "# {{ }} The API server's"},
	} {
		text, err := os.ReadFile(filepath.Join(root, "deploy/agent.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "agent.yaml"), []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if made, err := templates(dir); err == nil || !strings.Contains(err.Error(), what) || made != nil {
			t.Errorf("%s: %v, %d templates", what, err, len(made))
		}
	}
}
