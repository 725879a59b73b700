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

// Portless reports whether a closed Service has endpoints that this node may use, and a port that none of them has, as where
// its targetPort is mistyped.
func (v *ServiceView) Portless() bool {
	unserved := func(f FrontendView) bool { return len(f.Tiers) == 0 && f.Path != PathNone }
	if !v.Keys.Closed() || !slices.ContainsFunc(v.Frontends, unserved) {
		return false
	}
	here, has := v.portsHere()
	return here && slices.ContainsFunc(v.Frontends, func(f FrontendView) bool {
		return unserved(f) && !has[SlicePort{Name: f.PortName, Protocol: f.Protocol}]
	})
}

// portsHere are the ports, without their numbers, of endpoints that this node may use, and whether there are such endpoints. Those of a slice share
// its list.
func (v *ServiceView) portsHere() (here bool, has map[SlicePort]bool) {
	has = map[SlicePort]bool{}
	seen := map[*SlicePort]bool{}
	for _, p := range v.Pods {
		if p.Reason != "" {
			continue
		}
		here = true
		if len(p.Ports) == 0 || seen[&p.Ports[0]] {
			continue
		}
		seen[&p.Ports[0]] = true
		for _, s := range p.Ports {
			has[SlicePort{Name: s.Name, Protocol: s.Protocol}] = true
		}
	}
	return here, has
}

// shut reports whether a closed Service has frontends of ClusterIPs, and each is refused here.
func (v *ServiceView) shut() bool {
	served := func(f FrontendView) bool { return len(f.Tiers) > 0 }
	return v.Keys.Closed() && len(v.Frontends) > 0 && !slices.ContainsFunc(v.Frontends, served)
}
