package sysctl

import (
	"fmt"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// UndoSoon is Undo, as long as the disk answers soon: atomicfile.ErrLate. It is
// done all the same when the disk does.
func (s Records) UndoSoon(key string) error {
	if err := s.soon(func() error { return s.Undo(key) }); err != nil {
		return fmt.Errorf("put sysctl %s back: %w", key, err)
	}
	return nil
}

// RestoreSoon is Restore, as long as the disk answers soon: atomicfile.ErrLate.
func (s Records) RestoreSoon() error {
	if err := s.soon(s.Restore); err != nil {
		return fmt.Errorf("put sysctls back, as they are written down in %s: %w", s.dir, err)
	}
	return nil
}

// soon asks the disk. Nobody waits a second time for one that hangs.
func (s Records) soon(ask func() error) error {
	select {
	case s.disk <- struct{}{}:
	default:
		return atomicfile.ErrLate
	}
	_, err := atomicfile.Within(recordPatience, func() (struct{}, error) {
		defer func() { <-s.disk }()
		return struct{}{}, ask()
	}, nil)
	return err
}
