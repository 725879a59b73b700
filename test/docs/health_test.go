package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The component for who comes from SuperEdge builds over that of node health: the daemons read
// its three ConfigMaps and no other, and need no Secret; the controller knows the same units.
func TestHealthComponentsBuild(t *testing.T) {
	const key = "superedgehealth/topology-zone"
	for components, want := range map[string]string{
		"../deploy/health": "--unit-key=unit --key-file=/etc/gridmesh-health/key --key-file=/etc/gridmesh-health/next",
		"../deploy/health, ../deploy/health/superedge": "--unit-key=" + key + " --superedge-namespace=edge-system",
	} {
		objects := overlay(t, kustomization+"components: ["+components+"]\n")
		spec := find(t, objects, "DaemonSet", "gridmesh-health").Spec.Template.Spec
		if got := strings.Join(spec.Containers[0].Args, " "); !strings.HasPrefix(got, "--node-name=$(NODE_NAME) "+want+" --state-file=/var/lib/gridmesh-health/unit") {
			t.Errorf("%s: %s", components, got)
		}
		if !strings.Contains(components, "superedge") {
			continue
		}
		mounted := map[string]bool{}
		for _, m := range spec.Containers[0].VolumeMounts {
			mounted[m.Name] = true
		}
		for _, v := range spec.Volumes {
			if !mounted[v.Name] || v.Secret != nil {
				t.Errorf("%s: volume %+v", components, v)
			}
		}
		if len(mounted) != len(spec.Volumes) || !mounted["state"] {
			t.Errorf("%s: mounts %v, volumes %+v", components, mounted, spec.Volumes)
		}
		args := find(t, objects, "Deployment", "gridmesh-controller").Spec.Template.Spec.Containers[0].Args
		if args[len(args)-1] != "--health-unit-key="+key {
			t.Errorf("%s: the controller has %q", components, args)
		}
		var read []string
		for _, o := range objects {
			if o.Kind == "Role" && o.Namespace == "edge-system" && len(o.Rules) == 1 && slices.Equal(o.Rules[0].Verbs, []string{"list", "watch"}) {
				read = o.Rules[0].ResourceNames
			}
		}
		if !slices.Equal(read, []string{"edge-health-zone-config", "edge-health-config", "hmac-config"}) {
			t.Errorf("%s: ConfigMaps %q", components, read)
		}
	}
}

// SuperEdge's component changes what node health's has made: without that, or before it, it says so.
func TestSuperEdgesComponentStandsBehind(t *testing.T) {
	for _, components := range []string{"../deploy/health/superedge", "../deploy/health/superedge, ../deploy/health"} {
		if _, said, err := kustomized(overlayDir(t, kustomization+"components: ["+components+"]\n")); err == nil || !strings.Contains(said, "no matches for Id DaemonSet.v1.apps/gridmesh-health.gridmesh") {
			t.Errorf("%s builds: %v, %s", components, err, said)
		}
	}
}

// What the sample of docs/install.md has of node health and the webhook as comments builds, with
// the images of its registry.
func TestHealthIsInTheSample(t *testing.T) {
	m := regexp.MustCompile("(?s)kustomization.yaml <<'EOF'\n(.*?)EOF\n").FindStringSubmatch(read(t, "docs/install.md"))
	if m == nil {
		t.Fatal("docs/install.md has no kustomization")
	}
	text := regexp.MustCompile(`(?m)^  # (- \S*deploy/(?:health|admission) |- \{name: gridmesh/(?:health|admission),)`).ReplaceAllString(m[1], "  $1")
	objects := overlay(t, text)
	for kind, name := range map[string]string{"DaemonSet": "health", "Deployment": "admission"} {
		if image := find(t, objects, kind, "gridmesh-"+name).Spec.Template.Spec.Containers[0].Image; image != "registry.example/gridmesh/"+name+":dev" {
			t.Errorf("the image of %s is %s", name, image)
		}
	}
}
