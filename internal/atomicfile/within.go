package atomicfile

import (
	"errors"
	"time"
)

// ErrLate says that a disk did not answer in time. It may still do what it was
// asked for.
var ErrLate = errors.New("the disk does not answer")

// Within asks a disk, which may hang for as long as it likes, and waits no longer
// than patience: ErrLate. What comes later goes to late, where that is not nil.
func Within[T any](patience time.Duration, ask func() (T, error), late func(T, error)) (T, error) {
	asked := Ask(ask)
	if got, ok := asked.Within(patience); ok {
		return got.Is, got.Err
	}
	if late != nil {
		go func() {
			got := <-asked.Late()
			late(got.Is, got.Err)
		}()
	}
	var none T
	return none, ErrLate
}

// Asked is something that a disk was asked, beside who wants to know.
type Asked[T any] struct{ answer chan Answer[T] }

// Answer is what a disk said.
type Answer[T any] struct {
	Is  T
	Err error
}

// Ask begins to ask a disk.
func Ask[T any](ask func() (T, error)) *Asked[T] {
	a := &Asked[T]{make(chan Answer[T], 1)}
	go func() {
		is, err := ask()
		a.answer <- Answer[T]{is, err}
	}()
	return a
}

// Within waits for the answer; false where it does not come so soon. It is had
// by Late then.
func (a *Asked[T]) Within(patience time.Duration) (Answer[T], bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case got := <-a.answer:
		return got, true
	case <-timer.C:
		return Answer[T]{}, false
	}
}

// Late is filled with the answer, once. That of nil never is.
func (a *Asked[T]) Late() <-chan Answer[T] {
	if a == nil {
		return nil
	}
	return a.answer
}
