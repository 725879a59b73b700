package statedir

import "time"

// StartPatience is how long a start waits for its disk, in all: the guard comes
// before whatever a disk that hangs may have to say.
const StartPatience = 700 * time.Millisecond

// Budget is a time that several waits share. It begins with the first of them.
// It has one owner.
type Budget struct {
	Of  time.Duration
	end time.Time
}

// Left is what there is of it.
func (b *Budget) Left() time.Duration {
	if b.end.IsZero() {
		b.end = time.Now().Add(b.Of)
	}
	return max(0, time.Until(b.end))
}

// Reading is something that is read beside who wants it.
type Reading[T any] struct{ answer chan Answer[T] }

// Answer is what was read.
type Answer[T any] struct {
	Is  T
	Err error
}

// Read begins to read.
func Read[T any](read func() (T, error)) *Reading[T] {
	r := &Reading[T]{make(chan Answer[T], 1)}
	go func() {
		is, err := read()
		r.answer <- Answer[T]{is, err}
	}()
	return r
}

// Within waits for the answer; false where it does not come so soon. It is had
// by Late then.
func (r *Reading[T]) Within(patience time.Duration) (Answer[T], bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a := <-r.answer:
		return a, true
	case <-timer.C:
		return Answer[T]{}, false
	}
}

// Late is filled with the answer, once. That of nil never is.
func (r *Reading[T]) Late() <-chan Answer[T] {
	if r == nil {
		return nil
	}
	return r.answer
}
