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
	type answer struct {
		is  T
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		is, err := ask()
		answered <- answer{is, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case got := <-answered:
		return got.is, got.err
	case <-timer.C:
	}
	if late != nil {
		go func() {
			got := <-answered
			late(got.is, got.err)
		}()
	}
	var none T
	return none, ErrLate
}
