package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// terms are the expressions of each node selector term that a pod must meet.
func terms(o *object) (list [][]corev1.NodeSelectorRequirement) {
	a := o.Spec.Template.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		list = append(list, term.MatchExpressions)
	}
	return list
}

// staysAway reports whether every term keeps a pod from nodes with a label.
func staysAway(o *object, key, value string) bool {
	list := terms(o)
	return len(list) > 0 && !slices.ContainsFunc(list, func(term []corev1.NodeSelectorRequirement) bool {
		return !slices.ContainsFunc(term, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == key && e.Operator == corev1.NodeSelectorOpNotIn && slices.Equal(e.Values, []string{value})
		})
	})
}

// An agent of systemd is no pod that could be waited for: neither the cleanup nor
// kube-proxy goes to its node, whatever becomes of the other label.
func TestWayBackLeavesUnitsAlone(t *testing.T) {
	cleanup := find(t, decode(t, kustomize(t, filepath.Join(edge.Root(), "deploy", "cleanup"))), "DaemonSet", "gridmesh-cleanup")
	for what, o := range map[string]*object{"the cleanup": cleanup, "kube-proxy": patched(t, "")} {
		if !staysAway(o, "gridmesh.io/units", "systemd") || !staysAway(o, "gridmesh.io/node", "serve") {
			t.Errorf("%s goes to nodes that are served: %v", what, terms(o))
		}
	}
}

const proxy = `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: kube-proxy, namespace: kube-system, generation: 3},
  spec: {selector: {matchLabels: {k8s-app: kube-proxy}}, template: {metadata: {labels: {k8s-app: kube-proxy}},
    spec: {AFFINITY containers: [{name: kube-proxy, image: registry.example/kube-proxy}]}}}}
`

// kubectl runs it without a cluster.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	cmd := exec.Command(filepath.Join(edge.Root(), "bin", "kube"), append([]string{"kubectl"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("kubectl %q: %v: %s", args, err, said.String())
	}
	return out.String()
}

// patched is kube-proxy with an affinity after the page's patch of it, and another.
func patched(t *testing.T, affinity string) *object {
	t.Helper()
	dir := t.TempDir()
	file, patch := filepath.Join(dir, "proxy.yaml"), filepath.Join(dir, "patch.json")
	if affinity != "" {
		affinity = "affinity: " + affinity + ","
	}
	if err := os.WriteFile(file, []byte(strings.Replace(proxy, "AFFINITY", affinity, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var after string
	for range 2 {
		text := kubectl(t, "patch", "--local", "-f", file, "-p", "{}", "-o", "go-template-file="+filepath.Join(edge.Root(), "deploy/node-by-node/kube-proxy.tmpl"))
		if !strings.Contains(text, `{"op": "test", "path": "/metadata/generation", "value": 3}`) {
			t.Errorf("what somebody else changes meanwhile is not looked at: %s", text)
		}
		if err := os.WriteFile(patch, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		after = kubectl(t, "patch", "--local", "-f", file, "--type", "json", "--patch-file", patch, "-o", "yaml")
		if err := os.WriteFile(file, []byte(after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return find(t, decode(t, after), "DaemonSet", "kube-proxy")
}

// Who keeps kube-proxy from nodes keeps it from them still.
func TestAffinityOfKubeProxyIsKept(t *testing.T) {
	const required = "requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
	for affinity, kept := range map[string][]string{
		"":                      {},
		"{}":                    {},
		"{podAntiAffinity: {}}": {},
		"{nodeAffinity: {}}":    {},
		"{nodeAffinity: {" + required + "[{matchFields: [{key: metadata.name, operator: NotIn, values: [a]}]}]}}}":                                                                                  {"metadata.name"},
		"{nodeAffinity: {" + required + "[{matchExpressions: [{key: eks.amazonaws.com/compute-type, operator: NotIn, values: [fargate]}]}, {matchExpressions: [{key: arch, operator: Exists}]}]}}}": {"eks.amazonaws.com/compute-type", "arch"},
	} {
		after := patched(t, affinity)
		if !staysAway(after, "gridmesh.io/node", "serve") {
			t.Errorf("%s: kube-proxy does not leave: %v", affinity, terms(after))
		}
		if got := len(terms(after)); got != max(1, len(kept)) {
			t.Fatalf("%s: %d terms", affinity, got)
		}
		for i, term := range terms(after) {
			for _, key := range []string{"gridmesh.io/node", "gridmesh.io/units"} {
				if n := len(slices.DeleteFunc(slices.Clone(term), func(e corev1.NodeSelectorRequirement) bool { return e.Key != key })); n != 1 {
					t.Errorf("%s: term %d asks for %s %d times", affinity, i, key, n)
				}
			}
		}
		for i, key := range kept {
			term := after.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i]
			if !slices.ContainsFunc(append(term.MatchExpressions, term.MatchFields...), func(e corev1.NodeSelectorRequirement) bool { return e.Key == key }) {
				t.Errorf("%s: term %d lost %s: %v", affinity, i, key, term)
			}
		}
	}
}
