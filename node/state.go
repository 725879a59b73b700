package node

import (
	"context"
	"errors"
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
	// saveInterval bounds how often the last good state is written where it
	// changes on and on. What changes after a pause is on disk within saveSoon.
	saveInterval = 10 * time.Second
	saveSoon     = time.Second
	// diskPatience is how long a write of it may take before that is said, and
	// how long an end waits for it.
	diskPatience = 5 * time.Second
)

// restore serves from the last good state until the source has a whole one.
// The state may be older than what Envoy and the kernel hold, so it only adds.
func (l *loop) restore(ctx context.Context) {
	st := l.restored
	if st == nil {
		return
	}
	l.used.restore(l.catalogs.Restore(st.Used), time.Now())
	l.catalogs.Used(l.used.names())
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
	if l.saver.pending && l.dir.others() {
		l.saver.later()
		return
	}
	if !l.saver.take() {
		return
	}
	l.ageUsed()
	near := map[topology.ObjectKey]bool{}
	for _, name := range l.catalog.Wildcard(render.ClusterType) {
		if entry, ok := l.catalog.Entry(name); ok {
			near[entry.Service] = true
		}
	}
	st := &source.State{
		Snapshot: source.Subset(l.snap, l.cfg.Node, func(key topology.ObjectKey) bool { return near[key] }),
		Used:     slices.Concat(l.catalogs.Listening(), l.used.names()),
		PodCIDRs: l.pods,
	}
	l.saver.write(st)
}

// saved notes what became of a write.
func (l *loop) saved(w write) {
	l.metrics.stateBytes.Add(float64(w.bytes))
	l.took(keptState, w.err)
	if w.err != nil {
		l.said.save.say(l.log.Error, "could not keep the last good state; a restart without a cloud would serve an older one", obs.KeyErr, w.err)
		l.metrics.stateFailures.Inc()
	}
	l.saver.wrote(w.err)
}

// watchDisk tells of a write that does not end.
func (l *loop) watchDisk(now time.Time) {
	if s := &l.saver; s.writing && !s.told && now.Sub(s.began) > diskPatience {
		s.told = true
		l.log.Error("the disk of the state directory does not take the last good state; traffic is not affected, but a restart would be", obs.KeyAway, now.Sub(s.began).Round(time.Second))
		l.metrics.stateFailures.Inc()
		l.took(keptState, errStalled)
	}
}

var errStalled = errors.New("a write does not end")

// finish writes what is to be kept before an end, as long as the disk takes it:
// the state first, for the record vouches for it.
func (l *loop) finish() {
	late := time.NewTimer(diskPatience)
	defer late.Stop()
	if l.finishState(late.C) {
		l.finishRecord(late.C)
	}
}

// finishState reports false where that is too late.
func (l *loop) finishState(late <-chan time.Time) bool {
	for l.saver.writing || l.saver.pending && !l.dir.others() {
		l.save()
		select {
		case w := <-l.saver.done:
			l.metrics.stateBytes.Add(float64(w.bytes))
			l.saver.wrote(w.err)
			if w.err != nil {
				l.log.Error("could not keep the last good state at the end", obs.KeyErr, w.err)
				return true
			}
		case <-late:
			return false
		}
	}
	return true
}

// saver says when the last good state is to be written: some time after a
// change, and no more often than once an interval. It is written beside the
// loop, for a disk may stall for as long as it likes.
type saver struct {
	keeper  *source.Keeper                       // a write's while one is on its way
	put     func(*source.State, time.Time) error // the keeper's Write
	pending bool
	behind  time.Time   // since when what is on disk is out of date; zero: it is not
	next    time.Time   // the same, of what is on its way there
	kept    bool        // this process has written it
	timer   *time.Timer // nil before the first mark
	writing bool
	began   time.Time // of the write
	told    bool      // that it does not end
	done    chan write
}

// write is what became of one.
type write struct {
	bytes int64
	err   error
}

func newSaver(path string) saver {
	k := source.NewKeeper(path, saveInterval)
	return saver{keeper: k, put: k.Write, done: make(chan write, 1)}
}

// mark notes that what is on disk is out of date.
func (s *saver) mark() {
	now := time.Now()
	if s.behind.IsZero() {
		s.behind = now
	}
	if s.writing && s.next.IsZero() {
		s.next = now
	}
	if !s.pending {
		s.pending = true
		s.schedule()
	}
}

func (s *saver) schedule() {
	if s.writing {
		return // wrote does it
	}
	wait := s.keeper.Wait(time.Now())
	if s.timer == nil {
		s.timer = time.NewTimer(wait)
	} else {
		s.timer.Reset(wait)
	}
}

// later has the same asked again after a while.
func (s *saver) later() {
	if s.timer != nil {
		s.timer.Reset(saveInterval)
	}
}

// take reports whether there is something to write, which is the caller's to
// do from then on.
func (s *saver) take() bool {
	if s.writing || !s.pending {
		return false
	}
	s.pending = false
	return true
}

// write writes, and fills done.
func (s *saver) write(st *source.State) {
	s.writing, s.told, s.began = true, false, time.Now()
	go func() {
		before := s.keeper.Written
		err := s.put(st, time.Now())
		s.done <- write{s.keeper.Written - before, err}
	}()
}

// wrote notes what became of a write, once done was read. One that failed is
// tried again.
func (s *saver) wrote(err error) {
	s.writing = false
	if err == nil {
		s.kept, s.behind = true, s.next
	}
	s.next = time.Time{}
	s.pending = s.pending || err != nil
	if s.pending {
		s.schedule()
	}
}

// current is until when what is on disk was the newest that was heard of until a
// time; zero where that is not known, for this process has written nothing.
func (s *saver) current(lastContact time.Time) time.Time {
	switch {
	case !s.kept:
		return time.Time{}
	case s.behind.IsZero() || lastContact.Before(s.behind):
		return lastContact
	default:
		return s.behind
	}
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
