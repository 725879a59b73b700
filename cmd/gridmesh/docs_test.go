package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// walk visits every command that people may run, by its path without the
// program's name.
func walkCommands(cmd *cobra.Command, visit func(path string, cmd *cobra.Command)) {
	for _, sub := range cmd.Commands() {
		if name := sub.Name(); name == "help" || name == "completion" {
			continue
		}
		_, path, _ := strings.Cut(sub.CommandPath(), " ")
		visit(path, sub)
		walkCommands(sub, visit)
	}
}

// docs/cli.md has every flag, with the commands that take it, and no other.
func TestFlagsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| (?:`-[a-zA-Z]`, )?`--([a-z-]+)` \\| ([a-z, ]+) \\| \\S")
	documented := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		if found := row.FindStringSubmatch(line); found != nil {
			documented[found[1]] = append(documented[found[1]], strings.Split(found[2], ", ")...)
		}
	}
	actual := map[string][]string{}
	walkCommands(command(), func(path string, cmd *cobra.Command) {
		if !strings.Contains(string(page), "`gridmesh "+path) && !strings.Contains(string(page), "`"+strings.TrimPrefix(path, "grid ")+"`") {
			t.Errorf("no word on gridmesh %s", path)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			actual[f.Name] = append(actual[f.Name], path)
			if f.Usage == "" {
				t.Errorf("gridmesh %s --%s has no help", path, f.Name)
			}
		})
	})
	for _, name := range slices.Sorted(maps.Keys(actual)) {
		slices.Sort(actual[name])
		slices.Sort(documented[name])
		if !slices.Equal(actual[name], documented[name]) {
			t.Errorf("--%s is taken by %q; the page says %q", name, actual[name], documented[name])
		}
	}
	for name := range documented {
		if actual[name] == nil {
			t.Errorf("the page has --%s, which no command takes", name)
		}
	}
}

// What is a manifest in the examples of the help.
const exampleState = `
{apiVersion: v1, kind: Node, metadata: {name: edge-7, labels: {site: a, node-restriction.kubernetes.io/site: a}}, spec: {podCIDRs: [10.244.7.0/24]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {topologyKeys: '["site"]'}}, spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [10.244.7.8], nodeName: edge-7}]}
---
{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {clusterIP: 10.96.0.11, ports: [{name: sql, port: 5432}]}}
---
{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {name: till}, spec: {gridUniqKey: node-restriction.kubernetes.io/site, template: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {tolerations: [{operator: Exists}]}}}}}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: gridmesh, name: edge-health-a, labels: {gridmesh.io/unit-lease: a}}, spec: {holderIdentity: edge-7, renewTime: "2026-01-02T03:04:05.000000Z"}}
---
{apiVersion: gridmesh.io/v1, kind: NodeTable, metadata: {namespace: gridmesh, name: gridmesh-shield}}
`

// The examples of the help are understood, and those that need nothing but
// manifests work.
func TestExamples(t *testing.T) {
	lines := testkit.Examples(t, command)
	t.Chdir(t.TempDir())
	for _, path := range []string{"state/all.yaml", "now.yaml"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(exampleState), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, words := range lines {
		if !slices.Contains(words, "-f") || slices.Contains(words, "--kubeconfig") {
			continue
		}
		ran++
		if code, out, log := gridmesh(t, words[1:]...); code != 0 || out == "" || log != "" {
			t.Errorf("%s: exit code %d\n%s%s", strings.Join(words, " "), code, out, log)
		}
	}
	if ran < 7 {
		t.Errorf("only %d of %d examples need nothing but manifests", ran, len(lines))
	}
}

// Every command helps and completes.
func TestEveryCommandHelps(t *testing.T) {
	walkCommands(command(), func(path string, cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("gridmesh %s is not described", path)
		}
		for _, args := range [][]string{append(strings.Fields(path), "--help"), append([]string{"help"}, strings.Fields(path)...)} {
			if code, out, log := gridmesh(t, args...); code != 0 || !strings.Contains(out, "gridmesh "+path) || log != "" {
				t.Errorf("gridmesh %v: code %d\n%s%s", args, code, out, log)
			}
		}
	})
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, log := gridmesh(t, "completion", shell); code != 0 || len(out) < 1000 || log != "" {
			t.Errorf("completion for %s: code %d, %d bytes\n%s", shell, code, len(out), log)
		}
	}
	if code, out, _ := gridmesh(t, "--version"); code != 0 || !strings.HasPrefix(out, "gridmesh version ") {
		t.Errorf("--version: code %d: %s", code, out)
	}
}
