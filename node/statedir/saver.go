package statedir

import (
	"time"

	"github.com/gridmesh/gridmesh/source"
)

const (
	// SaveInterval bounds how often the last good state is written where it
	// changes on and on.
	SaveInterval = 10 * time.Second
	// Patience is how long a write, or what is read, may take before that is
	// said, and how long an end waits for it.
	Patience = 5 * time.Second
)

// Saver says when the last good state is to be written: some time after a
// change, and no more often than once an interval. It is written beside the
// loop, for a disk may stall for as long as it likes. It has one owner.
type Saver struct {
	Put  func(*source.State, time.Time) error // the keeper's Write
	Done chan Saved

	keeper        *source.Keeper // a write's while one is on its way
	pending       bool
	behind        time.Time   // since when what is on disk is out of date; zero: it is not
	next          time.Time   // the same, of what is on its way there
	kept          bool        // this process has written it
	timer         *time.Timer // nil before the first mark
	writing, told bool
	began         time.Time // of the write
}

// Saved is what became of a write.
type Saved struct {
	Bytes int64
	Err   error
}

// NewSaver writes to a file.
func NewSaver(path string) Saver {
	k := source.NewKeeper(path, SaveInterval)
	return Saver{keeper: k, Put: k.Write, Done: make(chan Saved, 1)}
}

// Mark notes that what is on disk is out of date.
func (s *Saver) Mark() {
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

func (s *Saver) schedule() {
	if s.writing {
		return // Wrote does it
	}
	wait := s.keeper.Wait(time.Now())
	if s.timer == nil {
		s.timer = time.NewTimer(wait)
	} else {
		s.timer.Reset(wait)
	}
}

// Pending reports whether there is something to write.
func (s *Saver) Pending() bool { return s.pending }

// Writing reports whether a write is on its way.
func (s *Saver) Writing() bool { return s.writing }

// Later has the same asked again after a while.
func (s *Saver) Later() {
	if s.timer != nil {
		s.timer.Reset(SaveInterval)
	}
}

// Take reports whether there is something to write, which is the caller's to
// do from then on.
func (s *Saver) Take() bool {
	if s.writing || !s.pending {
		return false
	}
	s.pending = false
	return true
}

// Write writes, and fills Done.
func (s *Saver) Write(st *source.State) {
	s.writing, s.told, s.began = true, false, time.Now()
	go func() {
		before := s.keeper.Written
		err := s.Put(st, time.Now())
		s.Done <- Saved{s.keeper.Written - before, err}
	}()
}

// Wrote notes what became of a write, once Done was read. One that failed is
// tried again.
func (s *Saver) Wrote(err error) {
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

// Stalled reports for how long a write has not ended, once, where that is long.
func (s *Saver) Stalled(now time.Time) (away time.Duration, stalled bool) {
	return stall(s.writing, &s.told, now.Sub(s.began))
}

func stall(writing bool, told *bool, away time.Duration) (time.Duration, bool) {
	if !writing || *told || away <= Patience {
		return 0, false
	}
	*told = true
	return away.Round(time.Second), true
}

// Current is until when what is on disk was the newest that was known until a
// time; zero where that is not known, for this process has written nothing.
func (s *Saver) Current(lastContact time.Time) time.Time {
	switch {
	case !s.kept:
		return time.Time{}
	case s.behind.IsZero() || lastContact.Before(s.behind):
		return lastContact
	default:
		return s.behind
	}
}

// Behind is for how long what is on disk was out of date at a time, 0 where it
// was not; false where this process has written nothing.
func (s *Saver) Behind(at time.Time) (late time.Duration, kept bool) {
	if !s.behind.IsZero() {
		late = at.Sub(s.behind)
	}
	return late, s.kept
}

// Due is filled when the state is to be written.
func (s *Saver) Due() <-chan time.Time {
	if s.timer == nil {
		return nil
	}
	return s.timer.C
}

// Stop ends what waits.
func (s *Saver) Stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
