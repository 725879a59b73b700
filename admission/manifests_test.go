package admission

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/api/names"
)

// asks are the webhooks of deploy/, those of the other component included.
func asks(t *testing.T) (list []admissionregistrationv1.MutatingWebhook) {
	t.Helper()
	text, err := os.ReadFile("../deploy/admission/admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var config admissionregistrationv1.MutatingWebhookConfiguration
		if strings.Contains(doc, "\nkind: "+configurationKind+"\n") {
			if err := yaml.UnmarshalStrict([]byte(doc), &config); err != nil || config.Name != names.Admission {
				t.Fatalf("%s: %v", config.Name, err)
			}
			list = append(list, config.Webhooks...)
		}
	}
	text, err = os.ReadFile("../deploy/admission-by-endpoints/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var component struct {
		Patches []struct {
			Patch string `json:"patch"`
		} `json:"patches"`
	}
	if err := yaml.Unmarshal(text, &component); err != nil {
		t.Fatal(err)
	}
	for _, p := range component.Patches {
		var steps []struct {
			Value any `json:"value"`
		}
		if err := yaml.Unmarshal([]byte(p.Patch), &steps); err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if value, ok := s.Value.(map[string]any); ok {
				var hook admissionregistrationv1.MutatingWebhook
				whole, err := yaml.Marshal(value)
				if err == nil {
					err = yaml.UnmarshalStrict(whole, &hook)
				}
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, hook)
			}
		}
	}
	return list
}

// What deploy/ has API servers ask is what is decided here, by those whose writes are
// looked at, and in nobody's way.
func TestWebhooksAreThoseOfThePaths(t *testing.T) {
	resources := map[string]mutate.Resource{"node-taint": mutate.Nodes, "pod-status": mutate.Pods, "endpointslice": mutate.EndpointSlices, "endpoint": mutate.LegacyEndpoints}
	list := asks(t)
	if len(list) != len(paths) {
		t.Fatalf("there are %d webhooks and %d paths", len(list), len(paths))
	}
	for _, w := range list {
		name := strings.TrimSuffix(w.Name, ".admission.gridmesh.io")
		if paths[name] == nil || w.ClientConfig.Service == nil || *w.ClientConfig.Service.Path != "/"+name || w.ClientConfig.CABundle != nil {
			t.Errorf("%s asks %+v", w.Name, w.ClientConfig)
		}
		if *w.FailurePolicy != admissionregistrationv1.Ignore || *w.TimeoutSeconds != 1 || *w.SideEffects != admissionregistrationv1.SideEffectClassNone ||
			*w.ReinvocationPolicy != admissionregistrationv1.NeverReinvocationPolicy || *w.MatchPolicy != admissionregistrationv1.Equivalent || !slices.Equal(w.AdmissionReviewVersions, []string{"v1", "v1beta1"}) {
			t.Errorf("%s is in somebody's way: %+v", w.Name, w)
		}
		if len(w.Rules) != 1 || !slices.Equal(w.Rules[0].Resources, []string{string(resources[name])}) || !slices.Equal(w.Rules[0].Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Update}) {
			t.Errorf("%s is about %+v", w.Name, w.Rules)
		}
		if own := w.NamespaceSelector == nil; own != (name == "node-taint") {
			t.Errorf("%s: asks about its own namespace: %v", w.Name, own)
		}
		users := regexp.MustCompile(`'(system:[^']*)'`).FindAllStringSubmatch(w.MatchConditions[0].Expression, -1)
		var who []string
		for _, m := range users {
			who = append(who, m[1])
		}
		if want := mutate.Writers(resources[name]); !slices.Equal(who, want) || !strings.HasPrefix(w.MatchConditions[0].Expression, "request.userInfo.username in [") {
			t.Errorf("%s asks about writes of %q, want %q", w.Name, who, want)
		}
		if len(w.MatchConditions) != 2 || !strings.Contains(fmt.Sprint(w.MatchConditions[1]), "object") {
			t.Errorf("%s asks about each of their writes", w.Name)
		}
	}
}
