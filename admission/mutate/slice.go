package mutate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// EndpointSlice has endpoints ready and serving that were, and that still are the same pod at
// the same place. It is the second line: see the package comment before it is used.
//
// It is looked at in updates of endpointslices by Writers(EndpointSlices).
func EndpointSlice(old, next *discoveryv1.EndpointSlice, s Shield) (p Patch, why Reason) {
	stood, why := standing(old, next, s)
	if len(stood) == 0 {
		return nil, why
	}
	left := slices.Clone(next.Endpoints)
	why = OtherChange
	for i := range left {
		e := &left[i]
		was, ok := stood[podOf(e.TargetRef)]
		switch {
		case !ok || ptr.Deref(was.NodeName, "") != ptr.Deref(e.NodeName, "") || !slices.Equal(was.Addresses, e.Addresses):
			continue
		case ptr.Deref(e.Conditions.Terminating, false):
			why = Terminating
			continue
		}
		if fell(was.Conditions.Ready, e.Conditions.Ready) {
			p = append(p, Operation{Op: "add", Path: fmt.Sprintf("/endpoints/%d/conditions/ready", i), Value: true})
			e.Conditions.Ready = was.Conditions.Ready
		}
		if fell(was.Conditions.Serving, e.Conditions.Serving) {
			p = append(p, Operation{Op: "add", Path: fmt.Sprintf("/endpoints/%d/conditions/serving", i), Value: true})
			e.Conditions.Serving = was.Conditions.Serving
		}
	}
	if len(p) == 0 {
		return nil, why
	}
	if same(old.Endpoints, left) && same(old.Ports, next.Ports) && sameMeta(old.ObjectMeta, next.ObjectMeta) {
		p = append(p, bookkeeping(old.ObjectMeta, next.ObjectMeta)...)
	}
	return p, Shielded
}

// standing are the endpoints that were ready or serving on shielded nodes, by their pods;
// where there are none, why.
func standing(old, next *discoveryv1.EndpointSlice, s Shield) (map[types.UID]*discoveryv1.Endpoint, Reason) {
	at, why := written(next.ObjectMeta), OtherChange
	stood := map[types.UID]*discoveryv1.Endpoint{}
	for i := range old.Endpoints {
		e := &old.Endpoints[i]
		pod := podOf(e.TargetRef)
		if pod == "" || !ptr.Deref(e.Conditions.Ready, false) && !ptr.Deref(e.Conditions.Serving, false) {
			continue
		}
		if refused := s.refuses(ptr.Deref(e.NodeName, ""), at); refused != "" {
			why = refused
			continue
		}
		if stood[pod] != nil {
			return nil, Ambiguous
		}
		stood[pod] = e
	}
	return stood, why
}

// podOf is the UID of what an endpoint stands for, "" where it does not say.
func podOf(ref *corev1.ObjectReference) types.UID {
	if ref == nil {
		return ""
	}
	return ref.UID
}

// fell reports whether what was true is no longer. Who does not say whether it is ready is
// not called ready here.
func fell(was, is *bool) bool { return ptr.Deref(was, false) && !ptr.Deref(is, false) }
