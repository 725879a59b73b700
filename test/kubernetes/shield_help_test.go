package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/admission/mutate/mutatetest"
	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const gridmesh = "gridmesh"

// inAnHour is until when a node is shielded that stays so.
func inAnHour() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }

// as is a client of somebody else, with extra about who that is. The groups say what they
// may do: an administrator's name alone does not matter to a policy.
func as(t *testing.T, user string, extra map[string][]string, groups ...string) kubernetes.Interface {
	t.Helper()
	cfg := c.RESTConfig()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated"), Extra: extra}
	client, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	return client
}

// asWriter is a client of whom a policy knows by name.
func asWriter(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	return as(t, user, nil, "system:masters")
}

// rehearsed is an update that goes through admission and is not stored.
var rehearsed = metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}

// space makes the namespace of what is written, and empties it when the test ends. It stays: to delete one takes
// Kubernetes seconds, of each test.
func space(t *testing.T) {
	t.Helper()
	wait.Eventually(t, func() error {
		return c.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + mutatetest.Namespace + "}}")
	})
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "--all", "--force", "--namespace", mutatetest.Namespace, "pods,endpoints,endpointslices")
		must(t, err)
	})
}

// policies applies manifests of package policy until the test ends, with the kind of their
// parameters, and the namespaces of these and of what is written.
func policies(t *testing.T, manifests ...string) {
	t.Helper()
	space(t)
	wait.Eventually(t, func() error {
		return c.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + gridmesh + "}}\n---\n" + string(policy.NodeTables()))
	})
	text := strings.Join(manifests, "---\n")
	t.Cleanup(func() { unapply(t, text) })
	wait.Eventually(t, func() error { return c.Apply(text) })
}

// unapply deletes what manifests have.
func unapply(t *testing.T, text string) {
	t.Helper()
	_, err := c.KubectlInput([]byte(text), "delete", "--ignore-not-found", "-f", "-")
	must(t, err)
}

// tables are the NodeTables of gridmesh.
func tables(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.RESTConfig())
	must(t, err)
	return client.Resource(schema.GroupVersionResource{Group: names.NodeTableGroup, Version: names.NodeTableVersion, Resource: names.NodeTables}).Namespace(gridmesh)
}

// parameter writes a NodeTable until the test ends; nil data are none at all.
func parameter(t *testing.T, name string, data map[string]string) {
	t.Helper()
	drop := func() {
		if err := tables(t).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	if data == nil {
		drop()
		return
	}
	rows := map[string]any{}
	for node, text := range data {
		rows[node] = text
	}
	table := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": names.NodeTableGroup + "/" + names.NodeTableVersion, "kind": names.NodeTableKind,
		"metadata": map[string]any{"name": name}, "data": rows,
	}}
	wait.Eventually(t, func() error { // its kind may be new
		_, err := tables(t).Apply(patient(t), name, table, metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	})
	t.Cleanup(drop)
}

// shielding is a way to know that the API server evaluates the newest shield: it reads
// NodeTables by a watch. A rehearsed write tells, of a slice with a node that no other shield has.
type shielding struct {
	t     *testing.T
	probe *discoveryv1.EndpointSlice
	slice kubernetes.Interface
	n     int
}

// newShielding needs the second line's policies.
func newShielding(t *testing.T) *shielding {
	t.Helper()
	s := &shielding{t: t, slice: asWriter(t, mutate.Writers(mutate.EndpointSlices)[1])}
	probe := mutatetest.Slice(mutatetest.Lost)
	probe.Name = "probe"
	var err error
	s.probe, err = c.Kube.DiscoveryV1().EndpointSlices(mutatetest.Namespace).Create(patient(t), probe, metav1.CreateOptions{})
	must(t, err)
	return s
}

// put has a shield in force.
func (s *shielding) put(entries map[string]string) {
	s.t.Helper()
	s.n++
	node := fmt.Sprintf("probe-%d", s.n)
	data := map[string]string{node: inAnHour()}
	maps.Copy(data, entries)
	parameter(s.t, names.Shield, data)
	slices := s.slice.DiscoveryV1().EndpointSlices(mutatetest.Namespace)
	s.probe.Endpoints[0].NodeName = &node
	s.probe.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)}
	var err error
	s.probe, err = c.Kube.DiscoveryV1().EndpointSlices(mutatetest.Namespace).Update(patient(s.t), s.probe, metav1.UpdateOptions{})
	must(s.t, err)
	down := mutatetest.Down(s.probe.DeepCopy(), 0)
	wait.Eventually(s.t, func() error {
		got, err := slices.Update(patient(s.t), down, rehearsed)
		if err == nil && !*got.Endpoints[0].Conditions.Ready {
			err = fmt.Errorf("the shield of %s is not in force", node)
		}
		return err
	})
}
