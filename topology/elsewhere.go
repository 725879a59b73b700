package topology

import "slices"

// Elsewhere reports whether a closed Service has an endpoint that is ready, and a frontend of a ClusterIP that this node may
// use none for: it is refused here, and served in other units.
func (v *ServiceView) Elsewhere() bool {
	refused := func(f FrontendView) bool { return len(f.Tiers) == 0 }
	return v.Keys.Closed() && len(v.Pods) > 0 && slices.ContainsFunc(v.Frontends, refused)
}
