package node

import (
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/xds/render"
)

// What Envoy is handed waits until it has taken what it was told of it: an Envoy that knows a
// cluster, and no endpoints of it, ends connections that the kernel served, or refused, until now.
// Who comes next waits for that too, so it takes no more than a part of all time, however often
// somebody's endpoints come and go.
const (
	takenWithin = time.Second // for one that is busy
	takenShare  = 5           // of all time at most one in so many
)

// allowance is how long may be waited yet: what was not used for a while, up to a bound.
type allowance struct {
	used time.Duration // of takenWithin
	at   time.Time
}

func (a *allowance) left(now time.Time) time.Duration {
	a.used = max(0, a.used-now.Sub(a.at)/takenShare)
	a.at = now
	return takenWithin - a.used
}

// awaitEnvoy lets Envoy take what it is handed next.
func (l *loop) awaitEnvoy() {
	handed := l.capture.Handed()
	comes := l.envoys.known || l.capture.Found() // one that serves comes back to an agent that starts
	if len(handed) == 0 || l.envoys.absent || !comes && len(l.xds.Streams()) == 0 {
		return // nobody is there who could take it
	}
	clusters := make([]string, len(handed))
	for i, f := range handed {
		clusters[i] = render.ClusterName(f)
	}
	l.await(clusters)
}

// await waits until Envoy has answered what it was told of clusters that it gets connections for.
func (l *loop) await(clusters []string) {
	began := time.Now()
	left := l.handing.left(began)
	if left <= 0 {
		l.metrics.unanswered.Inc()
		return
	}
	taken := l.xds.Await(clusters, left)
	took := time.Since(began)
	l.handing.used = min(l.handing.used+took, takenWithin) // this process may have stood still
	l.metrics.handing.Observe(took.Seconds())
	if !taken {
		l.metrics.unanswered.Inc()
		l.said.slow.Say(l.log.Warn, "Envoy has not answered what it was told of clusters, and gets their connections: it may end the first", obs.KeyFrontends, len(clusters), obs.KeyWait, took)
	}
}
