//nolint:staticcheck // Endpoints are deprecated, and still written
package mutatetest

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/admission/mutate"
)

// subset has ready addresses on nodes, numbered from some number on.
func subset(port int32, first int, nodes ...string) corev1.EndpointSubset {
	s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "http", Port: port, Protocol: corev1.ProtocolTCP}}}
	for n, node := range nodes {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: ip(first + n), NodeName: &node, TargetRef: ref(first + n)})
	}
	return s
}

// legacy are Endpoints without a Service: no controller wants them.
func legacy(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: Namespace, Annotations: map[string]string{trigger: "2026-01-02T03:04:05.006Z"}},
		Subsets:    subsets,
	}
}

// drop has addresses of a subset not ready.
func drop(s *corev1.EndpointSubset, which ...int) {
	var ready []corev1.EndpointAddress
	for i, a := range s.Addresses {
		if slices.Contains(which, i) {
			s.NotReadyAddresses = append(s.NotReadyAddresses, a)
		} else {
			ready = append(ready, a)
		}
	}
	s.Addresses = ready
}

// drops is how the controller writes that addresses of the first subset are not ready.
func drops(which ...int) func(Object) {
	return change(func(e *corev1.Endpoints) {
		drop(&e.Subsets[0], which...)
		stamps(e, map[string]string{trigger: "2026-02-03T04:05:06Z"})
	})
}

func then(first func(Object), more func(*corev1.Endpoints)) func(Object) {
	return change(func(e *corev1.Endpoints) {
		first(e)
		more(e)
	})
}

func endpoints(now time.Time) []Case {
	three := func() *corev1.Endpoints { return legacy(subset(80, 1, Lost, Other, Lost)) }
	two := func() *corev1.Endpoints { return legacy(subset(80, 1, Lost, Other), subset(81, 11, Lost, Lost)) }
	nameless := three()
	nameless.Subsets[0].Addresses[0].TargetRef = nil
	twice := legacy(subset(80, 1, Lost, Other))
	twice.Subsets[0].Addresses[1] = twice.Subsets[0].Addresses[0]
	bare := three()
	bare.Annotations = nil
	return []Case{
		{Name: "all on a node", Old: three(), Change: drops(0, 2), Want: mutate.Shielded, Nothing: true},
		{Name: "all on a node, by a manager without accounts", Old: three(), Change: drops(0, 2), By: "system:kube-controller-manager", Want: mutate.Shielded, Nothing: true},
		{Name: "all on a node, by somebody", Old: three(), Change: drops(0, 2), By: "somebody"},
		{Name: "all there are", Old: legacy(subset(80, 1, Lost)), Change: drops(0), Want: mutate.Shielded, Nothing: true},
		{Name: "one elsewhere, too", Old: three(), Change: drops(0, 1), Want: mutate.Shielded},
		{Name: "one elsewhere alone", Old: three(), Change: drops(1), Want: mutate.OtherChange},
		{Name: "one of each subset", Old: two(), Change: then(drops(0), func(e *corev1.Endpoints) { drop(&e.Subsets[1], 1) }), Want: mutate.Shielded, Nothing: true},
		{Name: "subsets in another order", Old: two(), Change: then(drops(0), func(e *corev1.Endpoints) { slices.Reverse(e.Subsets) }), Want: mutate.Shielded},
		{Name: "with another port", Old: three(), Change: then(drops(0), func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 81 }), Want: mutate.OtherChange},
		{Name: "another pod", Old: three(), Change: then(drops(0), func(e *corev1.Endpoints) { e.Subsets[0].NotReadyAddresses[0].TargetRef = ref(7) }), Want: mutate.OtherChange},
		{Name: "another address", Old: three(), Change: then(drops(0), func(e *corev1.Endpoints) { e.Subsets[0].NotReadyAddresses[0].IP = ip(77) }), Want: mutate.OtherChange},
		{Name: "without pods", Old: nameless, Change: drops(0), Want: mutate.OtherChange},
		{Name: "one pod twice", Old: twice, Change: drops(0), Want: mutate.Ambiguous},
		{Name: "no shield", Old: three(), Change: drops(0), Shield: map[string]string{}, Want: mutate.Unshielded},
		{Name: "over", Old: legacy(subset(80, 1, Lost)), Change: drops(0), Shield: over(now), Want: mutate.Expired},
		{Name: "the time comes", Old: bare, Change: drops(0), Want: mutate.Shielded, Nothing: true},
		{Name: "a label, too", Old: three(), Change: then(drops(0), func(e *corev1.Endpoints) { e.Labels = map[string]string{"new": "1"} }), Want: mutate.Shielded},
		{Name: "one goes", Old: three(), Change: then(drops(0), func(e *corev1.Endpoints) { e.Subsets[0].Addresses = e.Subsets[0].Addresses[:1] }), Want: mutate.Shielded},
		{Name: "ready again", Old: func() Object {
			e := three()
			drop(&e.Subsets[0], 0)
			return e
		}(), Change: change(func(e *corev1.Endpoints) { e.Subsets = three().Subsets }), Want: mutate.OtherChange},
	}
}
