// Package mutatetest has writes of a controller manager, and what becomes of each: for
// package mutate, and for whatever else makes the same decisions.
//
//	cases.go                      what a case is, and how its object is decided and patched
//	nodes.go, pods.go             nodes, pods/status
//	endpointslices.go, endpoints.go  the second line
package mutatetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gridmesh/gridmesh/admission/mutate"
)

// Object is a node, a pod, an EndpointSlice or Endpoints.
type Object interface {
	runtime.Object
	metav1.Object
}

// The nodes of the cases: one that the cloud lost and that is shielded, and one that is not.
const (
	Lost  = "shield-lost"
	Other = "shield-other"
)

// Namespace is that of all objects but nodes.
const Namespace = "shield"

// Case is one write.
type Case struct {
	Name string
	// Old is stored. One with a deletionTimestamp terminates.
	Old Object
	// Change makes of it what is written.
	Change func(Object)
	// By writes it; nobody is the controller of Old's resource.
	By string
	// Shield is the data of the NodeTable; nil has Lost, for an hour.
	Shield map[string]string
	// Want is the reason, "" where the writer is none that is looked at.
	Want mutate.Reason
	// Nothing is left of the write: no resourceVersion comes of it.
	Nothing bool
}

// Resource is what the case writes.
func (c Case) Resource() mutate.Resource {
	switch c.Old.(type) {
	case *corev1.Node:
		return mutate.Nodes
	case *corev1.Pod:
		return mutate.Pods
	case *discoveryv1.EndpointSlice:
		return mutate.EndpointSlices
	}
	return mutate.LegacyEndpoints
}

// Writer is who writes.
func (c Case) Writer() string {
	if c.By != "" {
		return c.By
	}
	return mutate.Writers(c.Resource())[1]
}

// Entries are the data of the NodeTable.
func (c Case) Entries(now time.Time) map[string]string {
	if c.Shield != nil {
		return c.Shield
	}
	return map[string]string{Lost: stamp(now.Add(time.Hour))}
}

// Next is what is written over a stored object, at some time.
func (c Case) Next(old Object, now time.Time) Object {
	next := old.DeepCopyObject().(Object)
	c.Change(next)
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	next.SetManagedFields(append(slices.Clone(next.GetManagedFields()), metav1.ManagedFieldsEntry{
		Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`),
	}))
	return next
}

// Cases are all of them, at a time.
func Cases(now time.Time) []Case {
	return slices.Concat(nodes(now), pods(now), endpointSlices(now), endpoints(now))
}

// Decide asks package mutate.
func Decide(old, next Object, s mutate.Shield) (mutate.Patch, mutate.Reason) {
	switch old := old.(type) {
	case *corev1.Node:
		return mutate.Node(old, next.(*corev1.Node), s)
	case *corev1.Pod:
		return mutate.Pod(old, next.(*corev1.Pod), s)
	case *discoveryv1.EndpointSlice:
		return mutate.EndpointSlice(old, next.(*discoveryv1.EndpointSlice), s)
	}
	return mutate.Endpoints(old.(*corev1.Endpoints), next.(*corev1.Endpoints), s) //nolint:staticcheck // deprecated, and still written
}

// Apply patches an object as an API server does: as JSON.
func Apply(object Object, p mutate.Patch) (Object, error) {
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, fmt.Errorf("the patch %s: %w", text, err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, fmt.Errorf("the patch %s: %w", text, err)
	}
	result := reflect.New(reflect.TypeOf(object).Elem()).Interface().(Object)
	return result, json.Unmarshal(after, result)
}

// change is a change of one type of object.
func change[T Object](f func(T)) func(Object) {
	return func(o Object) { f(o.(T)) }
}

// stamp is a time as it is in the NodeTable.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// over is a shield that was over before a write.
func over(now time.Time) map[string]string {
	return map[string]string{Lost: stamp(now.Add(-time.Minute)), Other: stamp(now.Add(time.Hour))}
}

// elsewhere is a shield of another node.
func elsewhere(now time.Time) map[string]string {
	return map[string]string{Other: stamp(now.Add(time.Hour))}
}

// stamps sets annotations, and takes those with "" away.
func stamps(o Object, annotations map[string]string) {
	all := maps.Clone(o.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range annotations {
		if v == "" {
			delete(all, k)
		} else {
			all[k] = v
		}
	}
	o.SetAnnotations(all)
}
