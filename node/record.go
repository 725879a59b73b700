package node

import (
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// record has on disk what the process after this one has to know. What fails,
// or has to wait for the write before, is tried again with the next look.
func (l *loop) record() {
	r, now := &l.recorder, time.Now()
	if !l.mayRecord() {
		return
	}
	if r.Writing() {
		if away, stalled := r.Stalled(now); stalled {
			l.log.Error("the disk of the state directory does not take a note of the outage; traffic is not affected, but a restart would be", obs.KeyAway, away)
			l.dir.Took(statedir.KeptNote, atomicfile.ErrLate)
		}
		return
	}
	if l.dir.Others() {
		return
	}
	if want := l.note(now, false); !want.At.Equal(r.OnDisk.At) || want.Phase != r.OnDisk.Phase || !want.Contact.Equal(r.OnDisk.Contact) {
		r.Write(want)
	}
}

// mayRecord reports whether a note may take the place of the one on disk: not before
// that was read, nor while a hold waits for the last good state that it vouches for.
func (l *loop) mayRecord() bool {
	return l.unread.notes == nil && !l.unread.stateLate() && l.healing.late == nil
}

// note is what is to be on disk. A hold that goes on is noted every few seconds
// and when what is held changed; exactly, where this process ends.
func (l *loop) note(now time.Time, exactly bool) outage.Note {
	u, n := &l.uplink, l.recorder.OnDisk
	// A contact vouches for the state on disk, and so it is none with a newer one.
	if at := l.saver.Current(u.LastContact); u.Met && at.After(n.Contact) && (exactly || at.Sub(n.Contact) >= contactEvery) {
		n.Contact = at
	}
	phase := l.phase()
	stale := phase != outage.Calm && l.stateIsStale()
	if phase == n.Phase && stale == n.Stale && (phase != outage.Held || !exactly && !l.recorder.Dirty && now.Sub(n.At) < outage.RecordEvery) {
		return n
	}
	n.Phase, n.Stale, n.At, n.Record = phase, stale, now, nil
	if phase != outage.Calm {
		n.Record = outage.Record{Since: u.Since, LastContact: u.LastContact, Holding: phase == outage.Held, Stale: stale, Past: l.past(u.LastContact), Boot: u.Boot}.Encode()
	}
	return n
}

// stateIsStale reports whether the state on disk is of long before the outage.
func (l *loop) stateIsStale() bool {
	late, kept := l.saver.Behind(l.uplink.Since)
	return !kept && !l.uplink.Trusted || late >= outage.VouchFor
}

func (l *loop) phase() outage.Phase {
	switch holds := l.healing.hold != nil; {
	case l.uplink.Away && (l.uplink.Recorded || holds):
		return outage.Cut
	case holds:
		return outage.Held
	}
	return outage.Calm
}

// recorded notes what became of a write.
func (l *loop) recorded(n statedir.Recorded) {
	l.recorder.Wrote(n)
	l.dir.Took(statedir.KeptNote, n.Err)
	if n.Err != nil && !l.said.unrecorded {
		l.log.Error("could not note the outage, or its end; a restart now would believe the cloud too early, or too late; trying again", obs.KeyErr, n.Err)
	}
	l.said.unrecorded = n.Err != nil
}

// finishRecord notes how it is at the end, as long as the disk takes it.
func (l *loop) finishRecord(late <-chan time.Time) {
	if l.parts.Cluster == nil || !l.mayRecord() {
		return
	}
	wait := func() bool {
		select {
		case n := <-l.recorder.Done:
			l.recorded(n)
			return true
		case <-late:
			return false
		}
	}
	if l.recorder.Writing() && !wait() {
		return
	}
	if l.dir.Others() {
		return
	}
	l.recorder.Write(l.note(time.Now(), true))
	wait()
}
