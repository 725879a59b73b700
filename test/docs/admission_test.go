package docs

import (
	"slices"
	"strings"
	"testing"
)

// The component of the webhook builds over deploy/, every image has a name that it
// chose, and the one behind it looks at endpoints in place of pods' status.
func TestAdmissionComponentsBuild(t *testing.T) {
	for components, want := range map[string]string{
		"../deploy/admission": "node-taint pod-status",
		"../deploy/admission, ../deploy/admission-by-endpoints": "node-taint endpointslice endpoint",
	} {
		objects := overlay(t, kustomization+"components: ["+components+"]\n")
		if image := find(t, objects, "Deployment", "gridmesh-admission").Spec.Template.Spec.Containers[0].Image; image != "gridmesh/admission:dev" {
			t.Errorf("%s: its image is %s", components, image)
		}
		var names []string
		for _, w := range find(t, objects, "MutatingWebhookConfiguration", "gridmesh-admission").Webhooks {
			names = append(names, strings.TrimSuffix(w.Name, ".admission.gridmesh.io"))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: the webhooks are %q, want %q", components, got, want)
		}
	}
	for _, o := range overlay(t, kustomization) {
		if strings.Contains(o.Name, "admission") {
			t.Errorf("deploy/ alone has %s %s", o.Kind, o.Name)
		}
	}
}

// What the page has to be written into a kustomization shields somebody: the controller
// keeps the list that the webhook goes by.
func TestAdmissionAsWrittenHasAShield(t *testing.T) {
	blocks := fence.FindAllStringSubmatch(section(t, "docs/admission.md", "Install it"), -1)
	i := slices.IndexFunc(blocks, func(b []string) bool { return strings.HasPrefix(b[2], "components: ") })
	if i < 0 {
		t.Fatal("docs/admission.md has no components")
	}
	objects := overlay(t, kustomization+blocks[i][2])
	find(t, objects, "Deployment", "gridmesh-admission")
	find(t, objects, "DaemonSet", "gridmesh-health")
	args := find(t, objects, "Deployment", "gridmesh-controller").Spec.Template.Spec.Containers[0].Args
	if !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--health-unit-key=") }) {
		t.Errorf("the controller has %q", args)
	}
}
