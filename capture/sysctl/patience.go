package sysctl

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// onDisk asks the disk of the records, and waits no longer than its patience:
// atomicfile.ErrLate. Nobody waits a second time for one that hangs. What is
// asked beside the caller is the disk alone: a sysctl of a network is that of
// the thread that writes it.
func onDisk[T any](s Records, ask func() (T, error)) (is T, err error) {
	select {
	case s.disk <- struct{}{}:
	default:
		return is, atomicfile.ErrLate
	}
	return atomicfile.Within(s.patience, func() (T, error) {
		defer func() { <-s.disk }()
		return ask()
	}, nil)
}

// remove removes what is at a path, where it is there and no folder with somebody's
// files; setAside moves it out of the way.
func (s Records) remove(path string) error {
	_, err := onDisk(s, func() (struct{}, error) {
		err := s.folder()
		if err == nil {
			err = os.Remove(path)
		}
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, atomicfile.ErrOdd) || errors.Is(err, unix.ENOTEMPTY) {
			err = nil
		}
		return struct{}{}, err
	})
	return err
}

func (s Records) setAside(path string) error {
	_, err := onDisk(s, func() (string, error) { return atomicfile.SetAside(path) })
	return err
}
