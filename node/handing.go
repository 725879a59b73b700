package node

import (
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/xds/render"
)

// What Envoy is handed waits until it has taken what it was told of it: an Envoy that knows a
// cluster, and no endpoints of it, ends connections that the kernel served, or refused, until now.
// Who comes next waits for that too, so it takes no more than a part of all time, however often
// somebody's endpoints come and go; and those of one namespace no more than half of that.
const (
	takenWithin = time.Second // for one that is busy
	takenShare  = 5           // of all time at most one in so many
)

// allowance is how long may be waited yet: what was not used for a while, up to a bound.
type allowance struct {
	used time.Duration
	at   time.Time
}

// rest has what was used come back, one in share of the time since.
func (a *allowance) rest(now time.Time, share time.Duration) {
	a.used = max(0, a.used-now.Sub(a.at)/share)
	a.at = now
}

// handing is what may be waited for Envoy yet, in all and for each namespace.
type handing struct {
	all allowance
	of  map[string]allowance // of those that have not all of it
}

// left is how long may be waited now, and which of the namespaces may have it waited for them.
func (h *handing) left(now time.Time, namespaces map[string]bool) (left time.Duration, may map[string]bool) {
	h.all.rest(now, takenShare)
	may = map[string]bool{}
	for name := range namespaces {
		of := h.of[name]
		of.rest(now, 2*takenShare)
		if own := takenWithin - of.used; own > 0 {
			left, may[name] = max(left, own), true
		}
	}
	return min(2*takenWithin-h.all.used, left), may
}

// use notes that so long was waited for namespaces.
func (h *handing) use(took time.Duration, now time.Time, namespaces map[string]bool) {
	h.all.used = min(h.all.used+took, 2*takenWithin) // this process may have stood still
	next := make(map[string]allowance, len(namespaces))
	for name, of := range h.of {
		if of.rest(now, 2*takenShare); of.used > 0 {
			next[name] = of
		}
	}
	for name := range namespaces {
		next[name] = allowance{min(next[name].used+took, takenWithin), now}
	}
	h.of = next
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
	of := make(map[string]string, len(clusters)) // their namespaces
	namespaces := map[string]bool{}
	for _, name := range clusters {
		key, _ := l.catalog.ServiceOf(render.ClusterType, name)
		of[name], namespaces[key.Namespace] = key.Namespace, true
	}
	left, may := l.handing.left(began, namespaces)
	all := len(clusters)
	clusters = slices.DeleteFunc(clusters, func(name string) bool { return !may[of[name]] })
	if left <= 0 || len(clusters) == 0 {
		l.metrics.unanswered.Inc()
		return
	}
	taken := l.xds.Await(clusters, left)
	took := time.Since(began)
	l.handing.use(took, time.Now(), may)
	l.metrics.handing.Observe(took.Seconds())
	if !taken || len(clusters) < all {
		l.metrics.unanswered.Inc()
	}
	if !taken {
		l.said.slow.Say(l.log.Warn, "Envoy has not answered what it was told of clusters, and gets their connections: it may end the first", obs.KeyFrontends, len(clusters), obs.KeyWait, took)
	}
}
