package told

import (
	"slices"
	"time"
)

// Heard is the last word that counts. The zero value is none.
type Heard struct {
	Word
	Until time.Time // it does not count any longer, unless the daemon says it again
}

// Ear tells words of a daemon that lives from what is left of one. It compares no clocks: a
// word counts from when it was heard, and the first one after a start not before another has
// come, for it may be of any age.
type Ear struct {
	last  time.Time // Word.Written of the newest
	heard bool
	word  Heard
}

// Hear takes a word as it was read at a time, and reports whether that changed what counts.
func (e *Ear) Hear(now time.Time, w Word) bool {
	if e.heard && w.Written.Equal(e.last) {
		return false
	}
	first := !e.heard
	e.heard, e.last = true, w.Written
	if first {
		return false
	}
	e.word = Heard{w, now.Add(Fresh)}
	return true
}

// Heard is what counts, if it is not too old by now.
func (e *Ear) Heard() Heard { return e.word }

// At is the last word, where it counts at a time; else none is dead.
func (h Heard) At(now time.Time) (dead []Dead) {
	if !now.Before(h.Until) {
		return nil
	}
	return slices.Clip(h.Dead)
}
