package mutatetest

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/admission/mutate"
)

const trigger = corev1.EndpointsLastChangeTriggerTime

// ref is the n-th pod.
func ref(n int) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: Namespace, Name: fmt.Sprint("web-", n), UID: types.UID(fmt.Sprint("uid-", n))}
}

func ip(n int) string { return fmt.Sprintf("192.0.%d.%d", n/200, n%200) }

// endpoint is one that is up.
func endpoint(n int, node string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{ip(n)}, NodeName: &node, TargetRef: ref(n), Zone: ptr.To("zone"),
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
	}
}

// Slice has endpoints on nodes, in their order, and no Service: no controller wants it.
func Slice(nodes ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web", Namespace: Namespace, Annotations: map[string]string{trigger: "2026-01-02T03:04:05.006Z"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for n, node := range nodes {
		s.Endpoints = append(s.Endpoints, endpoint(n, node))
	}
	return s
}

// Down has endpoints neither ready nor serving.
func Down(s *discoveryv1.EndpointSlice, which ...int) *discoveryv1.EndpointSlice {
	for _, i := range which {
		s.Endpoints[i].Conditions.Ready, s.Endpoints[i].Conditions.Serving = ptr.To(false), ptr.To(false)
	}
	return s
}

// falls is how the controller writes that endpoints are down.
func falls(which ...int) func(Object) {
	return change(func(s *discoveryv1.EndpointSlice) {
		Down(s, which...)
		stamps(s, map[string]string{trigger: "2026-02-03T04:05:06Z"})
	})
}

// also is a change, and then more.
func also(first func(Object), more func(*discoveryv1.EndpointSlice)) func(Object) {
	return change(func(s *discoveryv1.EndpointSlice) {
		first(s)
		more(s)
	})
}

func endpointSlices(now time.Time) []Case {
	three := func() *discoveryv1.EndpointSlice { return Slice(Lost, Other, Lost) }
	bare := three()
	bare.Annotations = nil
	twice := three()
	twice.Endpoints[2].TargetRef = ref(0)
	nameless := three()
	nameless.Endpoints[0].TargetRef = nil
	wasTerminating := three()
	wasTerminating.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
	return []Case{
		{Name: "all on a node", Old: three(), Change: falls(0, 2), Want: mutate.Shielded, Nothing: true},
		{Name: "all on a node, by a manager without accounts", Old: three(), Change: falls(0, 2), By: "system:kube-controller-manager", Want: mutate.Shielded, Nothing: true},
		{Name: "all on a node, by somebody", Old: three(), Change: falls(0, 2), By: "somebody"},
		{Name: "one elsewhere, too", Old: three(), Change: falls(0, 1), Want: mutate.Shielded},
		{Name: "one elsewhere alone", Old: three(), Change: falls(1), Want: mutate.OtherChange},
		{Name: "no shield", Old: three(), Change: falls(0), Shield: map[string]string{}, Want: mutate.Unshielded},
		{Name: "over", Old: Slice(Lost), Change: falls(0), Shield: over(now), Want: mutate.Expired},
		{Name: "serving alone", Old: three(), Change: change(func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Serving = ptr.To(false) }), Want: mutate.Shielded, Nothing: true},
		{Name: "ready alone", Old: three(), Change: change(func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = ptr.To(false) }), Want: mutate.Shielded, Nothing: true},
		{Name: "down before", Old: Down(three(), 0), Change: falls(2), Want: mutate.Shielded, Nothing: true},
		{Name: "terminates", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Terminating = ptr.To(true) }), Want: mutate.Terminating},
		{Name: "terminated before", Old: wasTerminating, Change: falls(0), Want: mutate.Terminating},
		{Name: "another pod", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef = ref(7) }), Want: mutate.OtherChange},
		{Name: "another node", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].NodeName = ptr.To(Other) }), Want: mutate.OtherChange},
		{Name: "another address", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{ip(77)} }), Want: mutate.OtherChange},
		{Name: "another zone", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Zone = ptr.To("new") }), Want: mutate.Shielded},
		{Name: "one goes", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[:2] }), Want: mutate.Shielded},
		{Name: "one comes", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, endpoint(5, Lost)) }), Want: mutate.Shielded},
		{Name: "in another order", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { slices.Reverse(s.Endpoints) }), Want: mutate.Shielded},
		{Name: "without pods", Old: nameless, Change: falls(0), Want: mutate.OtherChange},
		{Name: "one pod twice", Old: twice, Change: falls(0, 2), Want: mutate.Ambiguous},
		{Name: "a label, too", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { s.Labels = map[string]string{"new": "1"} }), Want: mutate.Shielded},
		{Name: "another port, too", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = ptr.To[int32](81) }), Want: mutate.Shielded},
		{Name: "the time comes", Old: bare, Change: falls(0), Want: mutate.Shielded, Nothing: true},
		{Name: "the time goes", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { stamps(s, map[string]string{trigger: ""}) }), Want: mutate.Shielded, Nothing: true},
		{Name: "another annotation, too", Old: three(), Change: also(falls(0), func(s *discoveryv1.EndpointSlice) { stamps(s, map[string]string{"new": "1"}) }), Want: mutate.Shielded},
		{Name: "up again", Old: Down(three(), 0, 2), Change: change(func(s *discoveryv1.EndpointSlice) { s.Endpoints = three().Endpoints }), Want: mutate.Unshielded},
	}
}
