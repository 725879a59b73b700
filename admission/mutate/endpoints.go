//nolint:staticcheck // Endpoints are deprecated, and still written
package mutate

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Endpoints has addresses ready that were, and that still are the same pod at the same place,
// with the same ports. It is the second line: see the package comment before it is used.
//
// It is looked at in updates of endpoints by Writers(LegacyEndpoints).
func Endpoints(old, next *corev1.Endpoints, s Shield) (p Patch, why Reason) {
	stood, why := stoodReady(old, next, s)
	if why != "" {
		return nil, why
	}
	left := slices.Clone(next.Subsets)
	for i := range left {
		ready, rest := slices.Clone(left[i].Addresses), []corev1.EndpointAddress{}
		for _, a := range left[i].NotReadyAddresses {
			if stands(stood, old.Subsets, left[i].Ports, a) {
				ready = append(ready, a)
			} else {
				rest = append(rest, a)
			}
		}
		if len(ready) == len(left[i].Addresses) {
			continue
		}
		slices.SortStableFunc(ready, byAddress)
		left[i].Addresses, left[i].NotReadyAddresses = ready, rest
		p = append(p,
			Operation{Op: "add", Path: fmt.Sprintf("/subsets/%d/addresses", i), Value: ready},
			Operation{Op: "add", Path: fmt.Sprintf("/subsets/%d/notReadyAddresses", i), Value: rest})
	}
	if len(p) == 0 {
		return nil, OtherChange
	}
	if same(old.Subsets, left) && sameMeta(old.ObjectMeta, next.ObjectMeta) {
		p = append(p, bookkeeping(old.ObjectMeta, next.ObjectMeta)...)
	}
	return p, Shielded
}

// place is a pod at an address.
type place struct {
	pod types.UID
	ip  string
}

func placeOf(a corev1.EndpointAddress) place { return place{podOf(a.TargetRef), a.IP} }

// stoodReady are the places that were ready on shielded nodes, of each subset; where there
// are none, why.
func stoodReady(old, next *corev1.Endpoints, s Shield) ([]map[place]bool, Reason) {
	at, why := written(next.ObjectMeta), OtherChange
	stood, some := make([]map[place]bool, len(old.Subsets)), false
	for i, subset := range old.Subsets {
		stood[i] = map[place]bool{}
		for _, a := range subset.Addresses {
			if podOf(a.TargetRef) == "" {
				continue
			}
			if refused := s.refuses(ptr.Deref(a.NodeName, ""), at); refused != "" {
				why = refused
				continue
			}
			if stood[i][placeOf(a)] {
				return nil, Ambiguous
			}
			stood[i][placeOf(a)], some = true, true
		}
	}
	if some {
		why = ""
	}
	return stood, why
}

// stands reports whether an address was ready in a subset of these ports.
func stands(stood []map[place]bool, subsets []corev1.EndpointSubset, ports []corev1.EndpointPort, a corev1.EndpointAddress) bool {
	for i := range subsets {
		if stood[i][placeOf(a)] && same(subsets[i].Ports, ports) {
			return true
		}
	}
	return false
}

// byAddress is the order in which the controller writes addresses.
func byAddress(a, b corev1.EndpointAddress) int {
	return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(podOf(a.TargetRef), podOf(b.TargetRef)))
}
