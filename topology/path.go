package topology

import "fmt"

// Datapath says which path connections to Services take.
type Datapath uint8

// The choices. A Service may make another one than the node.
const (
	// DatapathNone is where there is no kernel path: Envoy serves TCP and UDP of
	// ClusterIPs, and nobody the rest. No Service changes that.
	DatapathNone Datapath = iota
	// DatapathAuto gives Envoy what it is better at: TCP of Services with topology
	// keys, which fall to another endpoint or tier at once, and also without a cloud.
	DatapathAuto
	// DatapathEnvoy gives Envoy TCP of every ClusterIP.
	DatapathEnvoy
	// DatapathKernel gives Envoy nothing.
	DatapathKernel
)

// String is the word that ParseDatapath reads; "" of DatapathNone, which has none.
func (d Datapath) String() string { return [...]string{"", "auto", "envoy", "kernel"}[d%4] }

// ParseDatapath reads "auto", "envoy" or "kernel", as flags and the annotation say it.
// Its error names the words; the caller puts the option's name before it.
func ParseDatapath(text string) (Datapath, error) {
	for _, d := range []Datapath{DatapathAuto, DatapathEnvoy, DatapathKernel} {
		if text == d.String() {
			return d, nil
		}
	}
	return DatapathNone, fmt.Errorf("%q is not known; use %s, %s or %s", text, DatapathAuto, DatapathEnvoy, DatapathKernel)
}

// Path is what serves one frontend.
type Path uint8

// The paths.
const (
	PathEnvoy  Path = iota // a proxy on the node, which falls from endpoint to endpoint and tier to tier by itself
	PathKernel             // DNAT, to the first tier of ByReadiness
	PathNone               // nothing
)

// String is "envoy", "kernel" or "none".
func (p Path) String() string { return [...]string{"envoy", "kernel", "none", "none"}[p%4] }

// datapath is what the node and the Service chose. The Service's is believed, but
// where it would lead past NetworkPolicies: they may be others' than the Service.
func (e *evaluation) datapath(s *Service) Datapath {
	d := e.opts.Datapath
	switch {
	case d == DatapathNone:
	case e.opts.Policies && d != DatapathEnvoy:
		d = DatapathKernel
	case s.Datapath != DatapathNone:
		d = s.Datapath
	}
	return d
}

// path is what serves a ClusterIP's port. Whose clients keep their endpoint for a
// time is the kernel's, unless Envoy is asked for: it knows no such time.
func (v *ServiceView) path(p Protocol) Path {
	tcp := p == TCP
	switch {
	case v.Datapath == DatapathNone && (tcp || p == UDP),
		v.Datapath == DatapathAuto && tcp && v.Keys.Mode != NoKeys && v.Affinity == 0,
		v.Datapath == DatapathEnvoy && tcp:
		return PathEnvoy
	case v.Datapath == DatapathNone:
		return PathNone
	}
	return PathKernel
}

// pathOutside is what serves node ports and addresses besides ClusterIPs: clients
// from elsewhere keep their address and port only in the kernel.
func (v *ServiceView) pathOutside() Path {
	if v.Datapath == DatapathNone {
		return PathNone
	}
	return PathKernel
}

// ByReadiness are tiers in the order for a path that cannot tell by itself who
// answers: those whose endpoints are ready before those whose end. It sends
// to the first. tiers stay as they are.
func ByReadiness(tiers []Tier) []Tier {
	if len(tiers) < 2 || !tiers[0].Terminating {
		return tiers
	}
	ordered := make([]Tier, 0, len(tiers))
	for _, ending := range []bool{false, true} {
		for _, t := range tiers {
			if t.Terminating == ending {
				ordered = append(ordered, t)
			}
		}
	}
	return ordered
}
