package topology

import "slices"

// Elsewhere reports whether a closed Service is served in other units alone: it has ready endpoints, its keys leave out all
// of them, and each frontend of a ClusterIP is refused here.
func (v *ServiceView) Elsewhere() bool {
	served := func(f FrontendView) bool { return len(f.Tiers) > 0 }
	here := func(p Pod) bool { return p.Reason == "" }
	return v.Keys.Closed() && len(v.Pods) > 0 && len(v.Frontends) > 0 && !slices.ContainsFunc(v.Frontends, served) && !slices.ContainsFunc(v.Pods, here)
}
