package topology

import (
	"net/netip"
	"slices"
)

// Standing is what an endpoint is to a frontend, as seen from one viewpoint.
type Standing int

// The standings. An endpoint that is going by itself, not ready or
// terminating, is Offered: its connections end with it.
const (
	Unrelated Standing = iota // no endpoint of the frontend
	Offered                   // may be used, or could be a moment ago
	Withheld                  // lives, and the Service's keys keep it from here
)

// StandingOf tells what an endpoint is to a frontend of the Service that e
// holds and sv shows.
func StandingOf(e *Entry, sv *ServiceView, frontend, endpoint netip.AddrPort, protocol Protocol) Standing {
	i := slices.IndexFunc(sv.Frontends, func(f FrontendView) bool {
		return f.AddrPort() == frontend && f.Protocol == protocol
	})
	if i < 0 {
		return Unrelated
	}
	f := &sv.Frontends[i]
	for _, t := range f.Tiers {
		if slices.ContainsFunc(t.Endpoints, func(o Target) bool { return o.Addr == endpoint }) {
			return Offered
		}
	}
	found := Unrelated
	for _, slice := range e.Slices {
		led := func(p SlicePort) bool {
			return p.Name == f.PortName && p.Protocol == protocol && p.Port == endpoint.Port()
		}
		if !slices.ContainsFunc(slice.Ports, led) {
			continue
		}
		for j := range slice.Endpoints {
			ep := &slice.Endpoints[j]
			switch {
			case ep.Addr != endpoint.Addr():
			case sv.Keys.Mode == NoKeys || !ep.Ready || ep.Terminating:
				return Offered
			default:
				found = Withheld
			}
		}
	}
	return found
}
