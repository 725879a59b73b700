package policy

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/api/names"
)

// read decodes the objects of a manifest that are of one kind; a field that there is not is
// an error.
func read[T any](t *testing.T, manifest, kind string) (list []T) {
	t.Helper()
	for _, doc := range strings.Split(manifest, "\n---\n") {
		if !strings.Contains(doc, "\nkind: "+kind+"\n") {
			continue
		}
		var object T
		if err := yaml.UnmarshalStrict([]byte(doc), &object); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		list = append(list, object)
	}
	if len(list) == 0 {
		t.Fatalf("no %s", kind)
	}
	return list
}

func mutating(t *testing.T) (policies []admissionv1.MutatingAdmissionPolicy, bindings []admissionv1.MutatingAdmissionPolicyBinding) {
	t.Helper()
	for _, m := range []string{Shield(), SecondLine()} {
		policies = append(policies, read[admissionv1.MutatingAdmissionPolicy](t, m, "MutatingAdmissionPolicy")...)
		bindings = append(bindings, read[admissionv1.MutatingAdmissionPolicyBinding](t, m, "MutatingAdmissionPolicyBinding")...)
	}
	return policies, bindings
}

// Whatever is wrong inside, a shield holds up no write.
func TestAShieldNeverHoldsUpAWrite(t *testing.T) {
	policies, bindings := mutating(t)
	if len(policies) != 4 || len(bindings) != 4 {
		t.Fatalf("%d policies and %d bindings, want 4 each", len(policies), len(bindings))
	}
	for i, p := range policies {
		if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionv1.Ignore {
			t.Errorf("%s fails with its evaluation", p.Name)
		}
		b := bindings[i].Spec
		if b.PolicyName != p.Name {
			t.Errorf("%s is bound to %s", b.PolicyName, p.Name)
		}
		if ref := b.ParamRef; ref == nil || ref.Name != names.Shield || ref.Namespace != "gridmesh" || *ref.ParameterNotFoundAction != admissionv1.AllowAction {
			t.Errorf("the parameter of %s is %+v", p.Name, ref)
		}
	}
}

// The policies look at the writes of whom package mutate names, and at no others.
func TestPoliciesLookAtTheSameWriters(t *testing.T) {
	policies, _ := mutating(t)
	for _, p := range policies {
		rules := p.Spec.MatchConstraints.ResourceRules
		if len(rules) != 1 || len(rules[0].Resources) != 1 || !slices.Equal(rules[0].Operations, []admissionv1.OperationType{admissionv1.Update}) {
			t.Fatalf("%s has the rules %+v", p.Name, rules)
		}
		writers := mutate.Writers(mutate.Resource(rules[0].Resources[0]))
		want := fmt.Sprintf("request.userInfo.username in ['%s']", strings.Join(writers, "', '"))
		if got := p.Spec.MatchConditions[0].Expression; got != want {
			t.Errorf("%s looks at writes where\n%s, want\n%s", p.Name, got, want)
		}
	}
}

// What a vote may write is what package names calls a vote.
func TestVotesAreTheAnnotationsOfTheVote(t *testing.T) {
	list := fmt.Sprintf("['%s', '%s', '%s']", names.NodeHealth, names.Evidence, names.NodeUnhealthy)
	found := 0
	for _, p := range read[admissionv1.ValidatingAdmissionPolicy](t, Votes(), "ValidatingAdmissionPolicy") {
		for _, v := range p.Spec.Validations {
			if v.Message == "" {
				t.Errorf("%s does not say what it refuses: %s", p.Name, v.Expression)
			}
			found += strings.Count(v.Expression, list)
		}
	}
	if found != 3 {
		t.Errorf("%s is there %d times, want 3", list, found)
	}
}

// Policies that hold votes are for API servers from 1.30 on, which compile an expression as the
// version before theirs would: macros with two variables came with 1.32.
func TestVotesAreForOlderAPIServers(t *testing.T) {
	two := regexp.MustCompile(`\.(all|exists|existsOne|exists_one|transformList|transformMap|transformMapEntry)\(\s*\w+\s*,\s*\w+\s*,`)
	for _, p := range read[admissionv1.ValidatingAdmissionPolicy](t, Votes(), "ValidatingAdmissionPolicy") {
		for _, v := range p.Spec.Validations {
			if found := two.FindString(v.Expression); found != "" {
				t.Errorf("%s has a macro with two variables, %q", p.Name, found)
			}
		}
	}
}

// While the kind of a parameter is not served its policy fails for everybody's writes.
func TestWhatHasAParameterHoldsNobodyUp(t *testing.T) {
	bindings := map[string]admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, b := range read[admissionv1.ValidatingAdmissionPolicyBinding](t, Votes(), "ValidatingAdmissionPolicyBinding") {
		bindings[b.Spec.PolicyName] = b
	}
	for _, p := range read[admissionv1.ValidatingAdmissionPolicy](t, Votes(), "ValidatingAdmissionPolicy") {
		b, ok := bindings[p.Name]
		kind, ref := p.Spec.ParamKind, b.Spec.ParamRef
		if want := strings.HasSuffix(p.Name, "-unit"); !ok || (ref != nil) != want || (kind != nil) != want {
			t.Errorf("%s has the parameter %+v, of kind %+v, bound: %v", p.Name, ref, kind, ok)
		}
		if kind == nil || ref == nil {
			continue
		}
		if *kind != (admissionv1.ParamKind{APIVersion: names.NodeTableGroup + "/" + names.NodeTableVersion, Kind: names.NodeTableKind}) || *p.Spec.FailurePolicy != admissionv1.Ignore {
			t.Errorf("%s has a parameter of %+v, and fails: %s", p.Name, kind, *p.Spec.FailurePolicy)
		}
		if ref.Name != names.Units || *ref.ParameterNotFoundAction != admissionv1.AllowAction {
			t.Errorf("the parameter of %s is %+v: one that must be there would hold up everybody's writes of Nodes", p.Name, ref)
		}
	}
}

// The controller makes each policy before its binding, in its own namespace, and has a right to
// each by its name, and to no other.
func TestTheControllerMayInstallEach(t *testing.T) {
	text, err := os.ReadFile("../../deploy/health/health.yaml")
	if err != nil {
		t.Fatal(err)
	}
	may := map[string][]string{}
	for _, role := range read[rbacv1.ClusterRole](t, string(text), "ClusterRole") {
		if role.Name != "gridmesh-controller-health" {
			continue
		}
		for _, r := range role.Rules {
			for _, resource := range r.Resources {
				if r.APIGroups[0] == "admissionregistration.k8s.io" && slices.Equal(r.Verbs, []string{"get", "create", "patch"}) {
					may[resource] = slices.Sorted(slices.Values(r.ResourceNames))
				}
			}
		}
	}
	objects, err := Objects("elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	want, seen := map[string][]string{}, map[string]bool{}
	for _, obj := range objects {
		kind, name := obj["kind"].(string), obj["metadata"].(map[string]any)["name"].(string)
		resource := strings.TrimSuffix(strings.ToLower(kind), "y") + "ies"
		if strings.HasSuffix(kind, "Binding") {
			resource = strings.ToLower(kind) + "s"
			if of := obj["spec"].(map[string]any)["policyName"].(string); !seen[of] {
				t.Errorf("the binding %s comes before its policy %s", name, of)
			}
		} else {
			seen[name] = true
		}
		want[resource] = append(want[resource], name)
		whole, err := yaml.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.ReplaceAll(string(whole), "gridmesh-", ""), " gridmesh\n") || strings.Contains(string(whole), "serviceaccount:gridmesh:") {
			t.Errorf("%s is about the namespace gridmesh, not elsewhere:\n%s", name, whole)
		}
	}
	for resource := range want {
		slices.Sort(want[resource])
	}
	if !reflect.DeepEqual(may, want) {
		t.Errorf("the controller may write\n%v, it installs\n%v", may, want)
	}
}
