package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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
	for _, b := range read[admissionv1.ValidatingAdmissionPolicyBinding](t, Votes(), "ValidatingAdmissionPolicyBinding") {
		ref := b.Spec.ParamRef
		if (ref != nil) != (b.Name == "gridmesh-votes-unit") {
			t.Errorf("%s has the parameter %+v", b.Name, ref)
		}
		if ref != nil && (ref.Name != names.Units || *ref.ParameterNotFoundAction != admissionv1.AllowAction) {
			t.Errorf("the parameter of %s is %+v: one that must be there would hold up everybody's writes of Nodes", b.Name, ref)
		}
	}
}
