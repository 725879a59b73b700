package statedir

import (
	"time"

	"github.com/gridmesh/gridmesh/node/outage"
)

// Recorder has a note on disk beside the loop, for a disk may stall for as long
// as it likes. Of what is to be noted meanwhile the newest wins. It has one owner.
type Recorder struct {
	Put    func(was, want outage.Note) (outage.Note, error) // a notebook's
	OnDisk outage.Note
	Dirty  bool // what is held changed since
	Done   chan Recorded

	writing, told bool
	began         time.Time // of the write
}

// Recorded is what became of a write.
type Recorded struct {
	Is  outage.Note
	Err error
}

// NewRecorder writes into a notebook in which there is a note already.
func NewRecorder(b Notebook, onDisk outage.Note) Recorder {
	return Recorder{Put: b.Put, OnDisk: onDisk, Done: make(chan Recorded, 1)}
}

// Writing reports whether a write is on its way.
func (r *Recorder) Writing() bool { return r.writing }

// Stalled reports for how long a write has not ended, once, where that is long.
func (r *Recorder) Stalled(now time.Time) (away time.Duration, stalled bool) {
	return stall(r.writing, &r.told, now.Sub(r.began))
}

// Write writes, and fills Done.
func (r *Recorder) Write(want outage.Note) {
	r.writing, r.told, r.Dirty, r.began = true, false, false, time.Now()
	was := r.OnDisk
	go func() {
		is, err := r.Put(was, want)
		r.Done <- Recorded{is, err}
	}()
}

// Wrote notes what became of a write, once Done was read.
func (r *Recorder) Wrote(n Recorded) {
	r.writing, r.OnDisk = false, n.Is
	r.Dirty = r.Dirty || n.Err != nil
}
