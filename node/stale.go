package node

import (
	"net/netip"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/topology"
)

// closeAfter leaves Envoy time to learn of a move, so that what is closed does
// not come back where it was.
const closeAfter = 250 * time.Millisecond

// staleTimer says when to look for connections that a move left behind. One
// that was not started never says so.
type staleTimer struct {
	timer   *time.Timer
	failing bool // the last attempt failed, and was said
}

func (t *staleTimer) start() { t.timer = time.NewTimer(closeAfter) }

func (t *staleTimer) reset() {
	if t.timer != nil {
		t.timer.Reset(closeAfter)
	}
}

func (t *staleTimer) due() <-chan time.Time {
	if t.timer == nil {
		return nil
	}
	return t.timer.C
}

func (t *staleTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// closeStale closes connections that a move left behind, where that is wanted.
func (l *loop) closeStale() {
	if l.stale.timer == nil || !l.live {
		return
	}
	n, err := l.capture.CloseStale(l.access)
	if n > 0 {
		l.log.Info("closed connections to endpoints that are no longer this node's to use", obs.KeyConnections, n)
		l.metrics.closed.Add(float64(n))
	}
	if err != nil && !l.stale.failing {
		l.log.Error("cannot close connections that a move left behind; trying again", obs.KeyErr, err)
	}
	l.stale.failing = err != nil
}

// access says what an endpoint is to a frontend, as seen from this node.
func (l *loop) access(frontend, endpoint netip.AddrPort) topology.Access {
	entry, ok := l.catalog.Entry(frontend.String())
	if !ok {
		return topology.AccessUnrelated
	}
	service, _ := l.snap.Services.Get(entry.Service)
	view, _ := l.view.Services.Get(entry.Service)
	return topology.ClusterIPAccess(service, view, frontend, endpoint, topology.TCP)
}
