package node

import (
	"context"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

const (
	// liveFirst is how long a source may take before the last good state is
	// used. Where rules of the run before are in force, waiting costs nothing.
	liveFirst = 500 * time.Millisecond
)

// restore serves from the last good state until the source has a whole one.
func (l *loop) restore(ctx context.Context) {
	if l.restored == nil {
		return
	}
	l.restoreUsed()
	if l.capture.Found() && l.waitForSource(ctx) {
		return
	}
	l.serveRestored()
}

// restoreUsed preloads what a run before used.
func (l *loop) restoreUsed() {
	l.used.Restore(l.catalogs.Restore(l.restored.Used), time.Now())
	l.tellUsed()
}

// serveRestored serves from the last good state, which may be older than what
// Envoy and the kernel hold, and so only adds.
func (l *loop) serveRestored() {
	l.log.Info("serving from the last good state", obs.KeyServices, l.restored.Snapshot.Services.Len())
	snap := *l.restored.Snapshot
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

// save keeps what this node needs to serve again without a cloud. What is there is
// not written over before it was read.
func (l *loop) save() {
	if l.saver.Pending() && !l.maySave() {
		l.saver.Later()
		return
	}
	if !l.saver.Take() {
		return
	}
	l.ageUsed()
	kept := l.kept()
	keep := func(s *topology.Service) *topology.Service {
		if !kept[s.Key] {
			return nil
		}
		return l.viewer.Own(s)
	}
	ips := l.capture.IPs()
	st := &source.State{
		Snapshot: source.Subset(l.snap, l.cfg.Node, keep),
		Used:     slices.Concat(l.catalogs.Listening(), l.used.Lasting()),
		PodCIDRs: l.pods,
		Node:     l.cfg.Node,
		Policies: l.policed,
		Ranges:   l.noteRanges(),
		NodeIPs:  l.saidIPs(),
		Homes:    ips.Homes,
		Servers:  answered(l.servers),
		Answered: answeredAt(l.servers),
	}
	l.saver.Write(st)
}

func (l *loop) maySave() bool { return l.unread.state == nil && !l.dir.Others() }

// saved notes what became of a write.
func (l *loop) saved(w statedir.Saved) {
	l.metrics.stateBytes.Add(float64(w.Bytes))
	l.dir.Took(statedir.KeptState, w.Err)
	if w.Err != nil {
		l.said.save.Say(l.log.Error, "could not keep the last good state; a restart without a cloud would serve an older one", obs.KeyErr, w.Err)
		l.metrics.stateFailures.Inc()
	}
	l.saver.Wrote(w.Err)
}

// tick does what only the time brings.
func (l *loop) tick(now time.Time) {
	l.look()
	l.judgeWatches()
	l.takeDead()
	l.ageHeld(now)
	l.watchDisk(now)
	l.payLog(now)
}

// watchDisk tells of a write that does not end, and reads again what could not be.
func (l *loop) watchDisk(now time.Time) {
	l.stalled(now)
	l.readAgain(now)
	if away, stalled := l.saver.Stalled(now); stalled {
		l.log.Error("the disk of the state directory does not take the last good state; traffic is not affected, but a restart would be", obs.KeyAway, away)
		l.metrics.stateFailures.Inc()
		l.dir.Took(statedir.KeptState, atomicfile.ErrLate)
	}
}

// finish writes what is to be kept before an end, as long as the disk takes it:
// the state first, for the record vouches for it.
func (l *loop) finish() {
	late := time.NewTimer(statedir.Patience)
	defer late.Stop()
	if l.finishState(late.C) {
		l.finishRecord(late.C)
	}
}

// finishState reports false where that is too late.
func (l *loop) finishState(late <-chan time.Time) bool {
	for l.saver.Writing() || l.saver.Pending() && l.maySave() {
		l.save()
		select {
		case w := <-l.saver.Done:
			l.metrics.stateBytes.Add(float64(w.Bytes))
			l.saver.Wrote(w.Err)
			if w.Err != nil {
				l.log.Error("could not keep the last good state at the end", obs.KeyErr, w.Err)
				return true
			}
		case <-late:
			return false
		}
	}
	return true
}
