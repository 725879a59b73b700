//nolint:staticcheck // Endpoints are deprecated, and still written
package mutate_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gridmesh/gridmesh/admission/mutate"
)

func endpointsLaws(old, next, after *corev1.Endpoints, s mutate.Shield) []string {
	if len(after.Subsets) != len(next.Subsets) {
		return []string{"no subset comes or goes"}
	}
	var broken []string
	for i, subset := range after.Subsets {
		was := next.Subsets[i]
		all := len(subset.Addresses) + len(subset.NotReadyAddresses)
		for _, a := range subset.Addresses {
			isA := func(b corev1.EndpointAddress) bool { return equality.Semantic.DeepEqual(a, b) }
			if slices.ContainsFunc(was.Addresses, isA) {
				continue
			}
			stood := slices.ContainsFunc(old.Subsets, func(s corev1.EndpointSubset) bool { return slices.ContainsFunc(s.Addresses, isA) })
			broken = append(broken, claims(map[string]bool{
				"only addresses on shielded nodes change": !s[*a.NodeName].IsZero(),
				"ready is only what was":                  stood && slices.ContainsFunc(was.NotReadyAddresses, isA),
			})...)
		}
		if all != len(was.Addresses)+len(was.NotReadyAddresses) || !equality.Semantic.DeepEqual(subset.Ports, was.Ports) {
			broken = append(broken, "no address or port comes or goes")
		}
	}
	return broken
}
