package node

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/topology"
)

// loopback is guarded by no source: whoever asks Envoy is there.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// cidrs are ranges of a source that are not guarded, and those that were before and are in their place.
type cidrs struct {
	wrong, before []netip.Prefix
	sure          []netip.Prefix // guarded while it was known which pods there are
}

func (r cidrs) finding() (list []capture.Finding) {
	if len(r.wrong) > 0 {
		list = append(list, guard.RefusedObject(r.wrong, r.before))
	}
	return list
}

// believeRanges has no range of a source guarded in which this node's own pods are, or its loopback, unless it
// was before: as a flag it would keep an agent from starting. What was guarded stays so then, for it is not known
// what was meant. As long as it is not known which pods there are, nothing counts as what was.
func (l *loop) believeRanges(snap *topology.Snapshot) *topology.Snapshot {
	if l.cidrs.sure == nil && l.restored != nil && len(l.restored.PodCIDRs) > 0 {
		l.cidrs.sure = l.restored.Snapshot.ServiceCIDRs
	}
	wrong := guard.New(guard.Within(snap.ServiceCIDRs, slices.Concat(l.pods, loopback)), slices.Concat(l.ranges, l.cidrs.sure))
	if l.cidrs.wrong, l.cidrs.before = wrong, l.cidrs.sure; len(wrong) > 0 {
		out := *snap
		out.ServiceCIDRs = slices.Clone(l.cidrs.sure)
		for _, p := range snap.ServiceCIDRs {
			if !slices.Contains(wrong, p) && !slices.Contains(l.cidrs.sure, p) {
				out.ServiceCIDRs = append(out.ServiceCIDRs, p)
			}
		}
		snap = &out
	}
	if len(l.pods) > 0 {
		l.cidrs.sure = snap.ServiceCIDRs
	}
	return snap
}
