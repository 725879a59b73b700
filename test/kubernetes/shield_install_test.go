package kubernetes

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// healthKey is the label of units for node health here: the cluster's own units are others'.
const (
	healthKey       = "test.gridmesh.io/votes"
	healthMetricsAt = "127.0.0.1:18369"
)

// healthController starts gridmesh-controller with the rights of deploy/, and returns what it counts.
func healthController(t *testing.T, flags ...string) (*edge.Process, func(name string, words ...string) (float64, error)) {
	t.Helper()
	must(t, c.HealthRights())
	p := controller(t, append([]string{"--health-unit-key", healthKey, "--metrics-bind-address", healthMetricsAt}, flags...)...)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: c.Lab.Cloud.Dial, DisableKeepAlives: true}}
	return p, func(name string, words ...string) (float64, error) {
		answer, err := client.Get("http://" + healthMetricsAt + "/metrics")
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return counted(string(text), name, words...), err
	}
}

// policyObjects are the policies as they are, by kind and name.
func policyObjects(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	client, err := dynamic.NewForConfig(c.RESTConfig())
	must(t, err)
	all := map[string]*unstructured.Unstructured{}
	for _, resource := range []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		list, err := client.Resource(admissionv1.SchemeGroupVersion.WithResource(resource)).List(patient(t), metav1.ListOptions{})
		must(t, err)
		for i := range list.Items {
			all[list.Items[i].GetKind()+" "+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return all
}

// versions are the resourceVersions of all policies and of both tables.
func versions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, obj := range policyObjects(t) {
		all[name] = obj.GetResourceVersion()
	}
	list, err := tables(t).List(patient(t), metav1.ListOptions{})
	must(t, err)
	for _, table := range list.Items {
		all[table.GetName()] = table.GetResourceVersion()
	}
	return all
}

// placeInUnits labels nodes with units for the test; "" takes the label away.
func placeInUnits(t *testing.T, of map[string]string) {
	t.Helper()
	for node, unit := range of {
		patch := set("labels", healthKey, unit)
		if unit == "" {
			patch = set("labels", healthKey, "null")
		}
		_, err := c.Kube.CoreV1().Nodes().Patch(patient(t), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		must(t, err)
	}
}

// unitsStored is what the table of units has.
func unitsStored(t *testing.T) (map[string]string, error) {
	t.Helper()
	table, err := tables(t).Get(patient(t), names.Units, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data, _, err := unstructured.NestedStringMap(table.Object, "data")
	return data, err
}

// The controller installs the kind, the policies and the tables into a cluster that has none of
// them, by the rights of deploy/; started again it writes nothing; it brings back what others change
// or delete, and leaves alone what is not its own; and votes are held to the units that Nodes have.
func TestTheControllerInstallsPolicies(t *testing.T) {
	text := policy.Shield() + "---\n" + policy.Votes()
	clean := func() { unapply(t, text+"---\n"+string(policy.NodeTables())) }
	clean()
	t.Cleanup(clean)
	wait.Eventually(t, func() error { return c.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + gridmesh + "}}") })
	const theirs = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: gridmesh-theirs}, spec: {failurePolicy: Ignore, matchConstraints: {resourceRules: [{apiGroups: [gridmesh.test], apiVersions: [v1], operations: [UPDATE], resources: [nothing]}]}, validations: [{expression: 'true'}]}}"
	applied(t, theirs, "validatingadmissionpolicy/gridmesh-theirs")
	placed := map[string]string{"a-1": "a", "a-2": "a", "b-1": "B", "b-2": "B"}
	placeInUnits(t, placed)
	t.Cleanup(func() { placeInUnits(t, map[string]string{"a-1": "", "a-2": "", "b-1": "", "b-2": ""}) })

	first, count := healthController(t)
	objects, err := policy.Objects(gridmesh)
	must(t, err)
	installed := func(count func(name string, words ...string) (float64, error)) func() error {
		return func() error {
			kept, err := count("gridmesh_health_policies", `state="kept"`)
			if err == nil && kept != float64(len(objects)) {
				err = fmt.Errorf("%v of %d policies and bindings are kept", kept, len(objects))
			}
			return err
		}
	}
	took := wait.Eventually(t, installed(count))
	t.Logf("installed after %s", took.Round(100*time.Millisecond))
	is := func(want map[string]string) {
		t.Helper()
		wait.Eventually(t, func() error {
			stored, err := unitsStored(t)
			if err == nil && !maps.Equal(stored, want) {
				err = fmt.Errorf("the units are %v, want %v", stored, want)
			}
			return err
		})
	}
	is(placed)
	if _, err := tables(t).Get(patient(t), names.Shield, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	for name, obj := range policyObjects(t) {
		if managers := obj.GetManagedFields(); strings.Contains(name, "gridmesh-votes") && (len(managers) == 0 || managers[0].Manager != "gridmesh-policies" || managers[0].Operation != metav1.ManagedFieldsOperationApply) {
			t.Errorf("%s is managed by %v", name, managers)
		}
	}
	wait.Eventually(t, func() error { return held(t, "a-1", "a-2", "b-1") })

	first.Kill()
	before := versions(t)
	_, again := healthController(t)
	wait.Eventually(t, installed(again))
	is(placed)
	idle := func(count func(name string, words ...string) (float64, error)) error {
		for _, what := range []string{"policy", "units", "list"} {
			n, err := count("gridmesh_health_writes_total", fmt.Sprintf("what=%q", what))
			if err == nil && n > 0 {
				err = fmt.Errorf("%v writes of %s", n, what)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	wait.Holds(t, 35*time.Second, func() error { return idle(again) }) // it looks each 30 s
	if after := versions(t); !maps.Equal(before, after) {
		t.Errorf("nothing changed, and versions are %v, were %v", after, before)
	}

	must(t, c.Apply(text)) // as people do, whose manifests are the same
	_, err = c.Kubectl("patch", "validatingadmissionpolicy", "gridmesh-votes", "--type=json", "-p", `[{"op":"replace","path":"/spec/validations/3/expression","value":"true"}]`)
	must(t, err)
	_, err = c.Kubectl("delete", "validatingadmissionpolicybinding/gridmesh-votes-unit", "mutatingadmissionpolicy/gridmesh-shield-pods")
	must(t, err)
	must(t, tables(t).Delete(patient(t), names.Units, metav1.DeleteOptions{}))
	is(placed)
	wait.Eventually(t, func() error {
		all := policyObjects(t)
		rules, _, err := unstructured.NestedSlice(all["ValidatingAdmissionPolicy gridmesh-votes"].Object, "spec", "validations")
		if err == nil && (rules[3].(map[string]any)["expression"] == "true" || all["ValidatingAdmissionPolicyBinding gridmesh-votes-unit"] == nil || all["MutatingAdmissionPolicy gridmesh-shield-pods"] == nil) {
			err = errors.New("what was changed is not brought back")
		}
		return err
	})
	if policyObjects(t)["ValidatingAdmissionPolicy gridmesh-theirs"] == nil {
		t.Error("it deleted what is not its own")
	}

	placeInUnits(t, map[string]string{"a-1": "B"})
	is(map[string]string{"a-1": "B", "a-2": "a", "b-1": "B", "b-2": "B"})
	wait.Eventually(t, func() error { return held(t, "a-1", "b-1", "a-2") })
}

// held fails where a voter's verdict on one node is refused, or the one on another is not.
func held(t *testing.T, voter, own, other string) error {
	t.Helper()
	try := func(node string) error {
		_, err := voterOf(t, voter).CoreV1().Nodes().Patch(patient(t), node, types.MergePatchType, []byte(voted(voter, "false")), metav1.PatchOptions{DryRun: rehearsed.DryRun})
		return err
	}
	mine, others := try(own), try(other)
	if mine != nil || !apierrors.IsInvalid(others) {
		return fmt.Errorf("%s votes on %s (%s), and on %s (%s)", voter, own, fmt.Sprint(mine), other, fmt.Sprint(others))
	}
	return nil
}

// With --health-policies=false policies are people's, and the tables are kept.
func TestPoliciesAreLeftToPeople(t *testing.T) {
	clean := func() { unapply(t, policy.Shield()+"---\n"+policy.Votes()+"---\n"+string(policy.NodeTables())) }
	clean()
	t.Cleanup(clean)
	healthController(t, "--health-policies=false")
	wait.Eventually(t, func() error {
		_, err := unitsStored(t)
		return err
	})
	wait.Holds(t, 15*time.Second, func() error {
		for name := range policyObjects(t) {
			if strings.Contains(name, "gridmesh-shield-nodes") || strings.Contains(name, "gridmesh-votes") {
				return fmt.Errorf("it installed %s", name)
			}
		}
		return nil
	})
}
