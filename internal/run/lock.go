package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Lock makes this process the only one that holds the lock file at path, which
// is made where it is missing, as is its directory, for the owner alone. The
// lock ends with unlock or with the process. Held by another it is ErrInUse.
func Lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := flock(f); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked by another process; stop it first", ErrInUse, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

// How long and how often a directory that another locks is tried. Whoever may
// read it can lock it, so that the wait has an end.
const (
	dirPatience = 5 * time.Second
	dirRetry    = 5 * time.Millisecond
)

// lockDir is Lock of a directory, which leaves no file. It waits a little:
// others hold it for a moment only.
func lockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(dirPatience)
	for err = flock(d); errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(end); err = flock(d) {
		time.Sleep(dirRetry)
	}
	if err != nil {
		_ = d.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w: another process keeps %s locked", ErrInUse, dir)
		}
		return nil, err
	}
	return func() { _ = d.Close() }, nil
}

// flock tries to lock an open file for itself.
func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
