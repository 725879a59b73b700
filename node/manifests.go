package node

import (
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// owed is what is known of manifests, and whether the log is to say it, and could not for having said much.
type owed struct {
	lost  []topology.Problem // what of them is not in force, of what was published last
	limit quiet.Limit
	is    bool
	came  topology.Problem // where something is not in force
}

// tellManifests logs what of the manifests is not in force as it is written, when it comes
// and when all is.
func (l *loop) tellManifests(r *report.Report) {
	if l.parts.Cluster != nil {
		return
	}
	now := r.Lost()
	came := slices.DeleteFunc(slices.Clone(now), func(p topology.Problem) bool { return slices.Contains(l.owed.lost, p) })
	if len(came) > 0 {
		l.owed.is, l.owed.came = true, came[0]
	} else if len(now) == 0 && len(l.owed.lost) > 0 {
		l.owed.is = true
	}
	l.owed.lost = now
	l.payLog(time.Now())
}

// payLog says how it is with the manifests, where that was not said: what is said last is true, however often
// they change.
func (l *loop) payLog(now time.Time) {
	if !l.owed.is || !l.owed.limit.Allow(now, 2*quiet.Burst, quiet.Every) {
		return
	}
	if l.owed.is = false; len(l.owed.lost) > 0 {
		if !slices.Contains(l.owed.lost, l.owed.came) {
			l.owed.came = l.owed.lost[0]
		}
		l.log.Warn("something is not in force as the manifests have it; status lists all of it", obs.KeyProblem, l.owed.came)
	} else {
		l.log.Info("all is in force again as the manifests have it")
	}
}
