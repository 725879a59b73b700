package docs

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// Node health, and with it the webhook, are what the components make: the controller writes
// the shield that the webhook reads, and may.
func TestChartHasNodeHealth(t *testing.T) {
	plain := kustomize(t, filepath.Join(edge.Root(), "deploy"))
	values := ownValues(t, decode(t, plain))
	key := func(key string) string {
		return patch("DaemonSet", "gridmesh-health", `{op: replace, path: /spec/template/spec/containers/0/args/1, value: --unit-key=`+key+`}`) +
			strings.TrimPrefix(patch("Deployment", "gridmesh-controller", `{op: replace, path: /spec/template/spec/containers/0/args/1, value: --health-unit-key=`+key+`}`), "patches:\n")
	}
	for what, tc := range map[string]struct{ values, kustomization string }{
		"alone":       {"health: {enabled: true, unitKey: unit}\n", "components: [../deploy/health]\n"},
		"another key": {"health: {enabled: true, unitKey: node-restriction.kubernetes.io/unit}\n", "components: [../deploy/health]\n" + key("node-restriction.kubernetes.io/unit")},
		"a key that YAML takes for another thing": {"health: {enabled: true, unitKey: 'on'}\n", "components: [../deploy/health]\n" + key("on")},
		"a key, and none enabled":                 {"health: {unitKey: unit}\n", ""},
		"on nodes that nobody serves yet, too": {
			"health: {enabled: true, unitKey: unit}\nnodeSelector: {gridmesh.io/node: serve}\n", "components: [../deploy/health, ../deploy/node-by-node]\n",
		},
		"image and resources": {
			"health: {enabled: true, unitKey: unit}\nimages: {health: registry.example/health:v1}\nresources: {health: {limits: {memory: 1Gi}}}\n",
			"components: [../deploy/health]\nimages: [{name: gridmesh/health, newName: registry.example/health, newTag: v1}]\n" +
				patch("DaemonSet", "gridmesh-health", `{op: replace, path: /spec/template/spec/containers/0/resources/limits/memory, value: 1Gi}`),
		},
		"and the webhook": {
			"health: {enabled: true, unitKey: unit}\nadmission: {enabled: true}\nimages: {admission: registry.example/admission:v1}\nresources: {admission: {limits: {memory: 1Gi}}}\n",
			"components: [../deploy/health, ../deploy/admission]\nimages: [{name: gridmesh/admission, newName: registry.example/admission, newTag: v1}]\n" +
				patch("Deployment", "gridmesh-admission", `{op: replace, path: /spec/template/spec/containers/0/resources/limits/memory, value: 1Gi}`),
		},
	} {
		made, err := chart(t, "kube-system", values+tc.values)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		sameObjects(t, what, made, overlayText(t, kustomization+tc.kustomization))
	}
}

// What would shield nobody is refused, with what is to be set.
func TestChartRefusesAShieldThatNobodyWrites(t *testing.T) {
	values := ownValues(t, decode(t, kustomize(t, filepath.Join(edge.Root(), "deploy"))))
	for mistake, tc := range map[string]struct {
		values string
		says   []string
	}{
		"the webhook alone":                        {"admission: {enabled: true}\n", []string{"- admission.enabled: ", "set health.enabled and health.unitKey"}},
		"the webhook, and neither":                 {"admission: {enabled: true}\ncontroller: {enabled: false}\n", []string{"- admission.enabled: ", "- controller.enabled: "}},
		"health without the controller":            {"health: {enabled: true, unitKey: unit}\ncontroller: {enabled: false}\n", []string{"- controller.enabled: ", "set it to true"}},
		"health without a key":                     {"health: {enabled: true}\n", []string{"- health.unitKey: ", "the label"}},
		"a key that is no label's":                 {"health: {enabled: true, unitKey: 'a,b'}\n", []string{"health/unitKey"}},
		"a value that is a key":                    {"health: {unit: unit}\n", []string{"'unit'"}},
		"an image of health that has no tag":       {"images: {health: gridmesh/health}\n", []string{"images/health"}},
		"a limit of health that is no such a word": {"resources: {health: {limit: {}}}\n", []string{"limit"}},
	} {
		_, err := chart(t, "kube-system", values+tc.values)
		for _, says := range tc.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %q is not said: %v", mistake, says, err)
			}
		}
	}
}
