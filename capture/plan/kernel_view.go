package plan

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// KernelOf are the frontends of a Service that the kernel path serves, those
// that Envoy serves before it included. None of nil.
func KernelOf(s *topology.ServiceView) (list []KernelFrontend) {
	if s == nil {
		return nil
	}
	session := func(port string) string { return s.Key.String() + ":" + port }
	crowd := crowdOf(s.Outside)
	for i := range s.Frontends {
		f := &s.Frontends[i]
		if f.Path == topology.PathNone {
			continue
		}
		list = append(list, KernelFrontend{
			Frontend: f.Frontend, Tiers: kernelTiers(f.Tiers), Silent: f.Silent, Serving: living(f.Serving, f.Tiers),
			Affinity: s.Affinity, Session: session(f.PortName), Crowd: crowd, Here: s.Service.InternalLocal,
		})
	}
	for i := range s.Outside {
		f := &s.Outside[i]
		if f.Path == topology.PathNone {
			continue
		}
		list = append(list, KernelFrontend{
			Frontend: f.Frontend, Tiers: kernelTiers(f.Tiers), Serving: living(f.Serving, f.Tiers),
			Affinity: s.Affinity, Session: session(f.PortName), Crowd: crowd,
			Outside: &KernelOutside{Local: f.Local, LocalTiers: kernelTiers(f.LocalTiers), Silent: f.Silent, Sources: f.Sources},
		})
	}
	return list
}

// crowdOf is where clients that dial from elsewhere are remembered.
func crowdOf(outside []topology.Outside) (crowd Crowd) {
	for i := range outside {
		switch f := &outside[i]; {
		case f.Path == topology.PathNone:
		case !f.Local:
			return CrowdAnywhere
		default:
			crowd = CrowdHere
		}
	}
	return crowd
}

// kernelTiers are those whose endpoints are ready before those whose end, for
// the kernel cannot tell who answers. Endpoints that are voted dead come last of all, which
// is never here: then others are there.
func kernelTiers(tiers []topology.Tier) (list [][]netip.AddrPort) {
	for _, t := range topology.ByReadiness(tiers) {
		ends := make([]netip.AddrPort, 0, len(t.Endpoints))
		for _, e := range t.Endpoints {
			if !e.Dead {
				ends = append(ends, e.Addr)
			}
		}
		list = append(list, ends)
	}
	return list
}

// living are endpoints without those that are voted dead: UDP flows to them are to go
// elsewhere.
func living(serving []netip.AddrPort, tiers []topology.Tier) []netip.AddrPort {
	dead := map[netip.AddrPort]bool{}
	for _, t := range tiers {
		for _, e := range t.Endpoints {
			if e.Dead {
				dead[e.Addr] = true
			}
		}
	}
	if len(dead) == 0 {
		return serving
	}
	return slices.DeleteFunc(slices.Clone(serving), func(e netip.AddrPort) bool { return dead[e] })
}
