package topology

import (
	"net/netip"
	"slices"
)

// Access is whether connections from a viewpoint, by one frontend of a ClusterIP,
// to one endpoint are to live on.
type Access uint8

// The kinds of access. An endpoint that goes by itself, not ready or
// terminating, is allowed: its connections end with it.
const (
	AccessUnrelated Access = iota // no endpoint of the frontend
	AccessAllowed                 // may be used, or could be a moment ago
	AccessDenied                  // lives, and the Service's keys keep it from here
)

// ClusterIPAccess returns the access to an endpoint by a frontend, of a ClusterIP, of
// the Service that e holds and sv shows. By others (ServiceView.Outside) it is
// unrelated: they take no Envoy, whose connections this is asked for.
func ClusterIPAccess(e *Entry, sv *ServiceView, frontend, endpoint netip.AddrPort, protocol Protocol) Access {
	i := slices.IndexFunc(sv.Frontends, func(f FrontendView) bool {
		return f.AddrPort() == frontend && f.Protocol == protocol
	})
	if i < 0 {
		return AccessUnrelated
	}
	f := &sv.Frontends[i]
	for _, t := range f.Tiers {
		if slices.ContainsFunc(t.Endpoints, func(o Target) bool { return o.Addr == endpoint }) {
			return AccessAllowed
		}
	}
	found := AccessUnrelated
	for _, slice := range e.Slices {
		serves := func(p SlicePort) bool {
			return p.Name == f.PortName && p.Protocol == protocol && p.Port == endpoint.Port()
		}
		if !slices.ContainsFunc(slice.Ports, serves) {
			continue
		}
		for j := range slice.Endpoints {
			ep := &slice.Endpoints[j]
			switch {
			case ep.Addr != endpoint.Addr():
			case sv.Keys.Mode == NoKeys || !ep.Ready || ep.Terminating || f.More:
				return AccessAllowed
			default:
				found = AccessDenied
			}
		}
	}
	return found
}
