package node

import (
	"slices"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// tellManifests logs what of the manifests is not in force as it is written, when it comes
// and when all is.
func (l *loop) tellManifests(r *report.Report) {
	if l.parts.Cluster != nil {
		return
	}
	now := r.Lost()
	came := slices.DeleteFunc(slices.Clone(now), func(p topology.Problem) bool { return slices.Contains(l.lost, p) })
	switch {
	case len(came) > 0:
		l.said.manifests.Say(l.log.Warn, "something is not in force as the manifests have it; status lists all of it", obs.KeyProblem, came[0])
	case len(now) == 0 && len(l.lost) > 0:
		l.said.manifests.Say(l.log.Info, "all is in force again as the manifests have it")
	}
	l.lost = now
}
