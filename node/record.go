package node

import (
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// recorder has a note on disk beside the loop, for a disk may stall for as long
// as it likes. Of what is to be noted meanwhile the newest wins.
type recorder struct {
	put     func(was, want note) (note, error) // the notebook's
	onDisk  note
	dirty   bool // what is held changed since
	writing bool
	began   time.Time // of the write
	told    bool      // that it does not end
	failing bool      // and that was said
	done    chan noted
}

// noted is what became of a write.
type noted struct {
	is  note
	err error
}

func newRecorder(b notebook) recorder { return recorder{put: b.put, done: make(chan noted, 1)} }

// write writes, and fills done.
func (r *recorder) write(want note) {
	r.writing, r.told, r.dirty, r.began = true, false, false, time.Now()
	was := r.onDisk
	go func() {
		is, err := r.put(was, want)
		r.done <- noted{is, err}
	}()
}

// record has on disk what the process after this one has to know. What fails,
// or has to wait for the write before, is tried again with the next look.
func (l *loop) record() {
	r, now := &l.recorder, time.Now()
	if r.writing {
		if !r.told && now.Sub(r.began) > diskPatience {
			r.told = true
			l.log.Error("the disk of the state directory does not take a note of the outage; traffic is not affected, but a restart would be", obs.KeyAway, now.Sub(r.began).Round(time.Second))
			l.took(keptNote, errStalled)
		}
		return
	}
	if l.dir.others() {
		return
	}
	if want := l.note(now, false); !want.at.Equal(r.onDisk.at) || want.phase != r.onDisk.phase || !want.contact.Equal(r.onDisk.contact) {
		r.write(want)
	}
}

// note is what is to be on disk. A hold that goes on is noted every few seconds
// and when what is held changed; exactly, where this process ends.
func (l *loop) note(now time.Time, exactly bool) note {
	u, n := &l.uplink, l.recorder.onDisk
	// A contact vouches for the state on disk, and so it is none with a newer one.
	if at := l.saver.current(u.lastContact); u.met && at.After(n.contact) && (exactly || at.Sub(n.contact) >= contactEvery) {
		n.contact = at
	}
	phase := l.phase()
	stale := phase != phaseCalm && l.stateIsStale()
	if phase == n.phase && stale == n.stale && (phase != phaseHeld || !exactly && !l.recorder.dirty && now.Sub(n.at) < recordEvery) {
		return n
	}
	n.phase, n.stale, n.at, n.outage = phase, stale, now, nil
	if phase != phaseCalm {
		o := outage{Since: u.since, LastContact: u.lastContact, Holding: phase == phaseHeld, Stale: stale, Past: l.past(), boot: u.book.boot}
		n.outage = o.encode()
	}
	return n
}

// stateIsStale reports whether the state on disk is of long before the outage.
func (l *loop) stateIsStale() bool {
	s, u := &l.saver, &l.uplink
	if !s.kept && !u.trusted {
		return true
	}
	return !s.behind.IsZero() && u.since.Sub(s.behind) >= vouchFor
}

func (l *loop) phase() phase {
	switch holds := l.healing.hold != nil; {
	case l.uplink.away && (l.uplink.recorded || holds):
		return phaseCut
	case holds:
		return phaseHeld
	}
	return phaseCalm
}

// recorded notes what became of a write.
func (l *loop) recorded(n noted) {
	r := &l.recorder
	r.writing, r.onDisk = false, n.is
	l.took(keptNote, n.err)
	if n.err != nil {
		r.dirty = true
		if !r.failing {
			l.log.Error("could not note the outage, or its end; a restart now would believe the cloud too early, or too late; trying again", obs.KeyErr, n.err)
		}
	}
	r.failing = n.err != nil
}

// finishRecord notes how it is at the end, as long as the disk takes it.
func (l *loop) finishRecord(late <-chan time.Time) {
	if l.parts.Cluster == nil {
		return
	}
	wait := func() bool {
		select {
		case n := <-l.recorder.done:
			l.recorded(n)
			return true
		case <-late:
			return false
		}
	}
	if l.recorder.writing && !wait() {
		return
	}
	if l.dir.others() {
		return
	}
	l.recorder.write(l.note(time.Now(), true))
	wait()
}
