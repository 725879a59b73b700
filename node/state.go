package node

import (
	"context"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

const (
	// liveFirst is how long a source may take before the last good state is
	// used. Where rules of the run before are in force, waiting costs nothing.
	liveFirst = 500 * time.Millisecond
	// saveInterval bounds how often the last good state is written.
	saveInterval = 10 * time.Second
)

// restore serves from the last good state until the source has a whole one.
// The state may be older than what Envoy and the kernel hold, so it only adds.
func (l *loop) restore(ctx context.Context) {
	st := l.restored
	if st == nil {
		return
	}
	l.catalogs.Used(l.used.restore(st.Used, time.Now())...)
	if l.capture.Found() && l.waitForSource(ctx) {
		return
	}
	l.log.Info("serving from the last good state", obs.KeyServices, st.Snapshot.Services.Len())
	snap := *st.Snapshot
	snap.Partial = true
	l.apply(&snap)
}

// waitForSource gives the source a moment and reports whether there is no need
// for the last good state.
func (l *loop) waitForSource(ctx context.Context) bool {
	wake := l.parts.Source.Wake()
	defer l.parts.Source.Forget(wake)
	select {
	case <-wake:
		return true
	case <-ctx.Done():
		return true
	case <-time.After(liveFirst):
		return false
	}
}

// save keeps what this node needs to serve again without a cloud.
func (l *loop) save() {
	if !l.saver.take() {
		return
	}
	near := map[topology.ObjectKey]bool{}
	for _, name := range l.catalog.Wildcard(render.ClusterType) {
		if entry, ok := l.catalog.Entry(name); ok {
			near[entry.Service] = true
		}
	}
	l.used.age(func(name string) bool { _, ok := l.catalog.Entry(name); return ok }, time.Now())
	st := &source.State{
		Snapshot: source.Subset(l.snap, l.cfg.Node, func(key topology.ObjectKey) bool { return near[key] }),
		Used:     slices.DeleteFunc(l.catalogs.UsedNames(), func(name string) bool { return !l.used.has(name) }),
		PodCIDRs: l.pods,
	}
	before := l.saver.keeper.Written
	err := l.saver.keeper.Write(st, time.Now())
	l.metrics.stateBytes.Add(float64(l.saver.keeper.Written - before))
	if err != nil {
		l.log.Error("could not keep the last good state; a restart without a cloud would serve an older one", obs.KeyErr, err)
		l.metrics.stateFailures.Inc()
		l.saver.mark()
	}
}

// saver says when the last good state is to be written: some time after a
// change, and no more often than once an interval.
type saver struct {
	keeper  *source.Keeper
	pending bool
	timer   *time.Timer // nil before the first mark
}

func newSaver(path string) saver { return saver{keeper: source.NewKeeper(path, saveInterval)} }

// mark notes that what is on disk is out of date.
func (s *saver) mark() {
	if s.pending {
		return
	}
	s.pending = true
	wait := s.keeper.Wait(time.Now())
	if s.timer == nil {
		s.timer = time.NewTimer(wait)
	} else {
		s.timer.Reset(wait)
	}
}

// take reports whether there is something to write, which is the caller's to
// do from then on.
func (s *saver) take() bool {
	was := s.pending
	s.pending = false
	return was
}

// due is filled when the state is to be written.
func (s *saver) due() <-chan time.Time {
	if s.timer == nil {
		return nil
	}
	return s.timer.C
}

func (s *saver) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
