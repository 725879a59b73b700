package topology

import "slices"

// Elsewhere reports whether a closed Service is served in other units alone: it has ready endpoints, its keys leave out all
// of them, and each frontend of a ClusterIP is refused here.
func (v *ServiceView) Elsewhere() bool {
	here := func(p Pod) bool { return p.Reason == "" }
	return v.shut() && len(v.Pods) > 0 && !slices.ContainsFunc(v.Pods, here)
}

// Nowhere reports whether a closed Service is served in no unit: it has no ready endpoint, and each frontend of a
// ClusterIP is refused.
func (v *ServiceView) Nowhere() bool { return v.shut() && len(v.Pods) == 0 }

// shut reports whether a closed Service has frontends of ClusterIPs, and each is refused here.
func (v *ServiceView) shut() bool {
	served := func(f FrontendView) bool { return len(f.Tiers) > 0 }
	return v.Keys.Closed() && len(v.Frontends) > 0 && !slices.ContainsFunc(v.Frontends, served)
}
