package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoLock is what is in the place of a lock's file and can be none: it is that which has to
// go, whatever the directory is.
var ErrNoLock = errors.New("cannot be locked")

// Lock makes this process the only one that holds the lock file at path, which
// is made where it is missing, as is its directory, for the owner alone. The
// lock ends with unlock or with the process. Held by another it is ErrInUse; a link or a
// directory in its place is ErrNoLock.
func Lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("lock: %s is a link; remove it: it %w", path, ErrNoLock)
	case errors.Is(err, unix.EISDIR):
		return nil, fmt.Errorf("lock: %s is a directory, where a file is to be; move it away: it %w", path, ErrNoLock)
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := flock(f); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked by another process; stop it first", ErrInUse, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !is(path, f) { // whoever held it removed it, as cleanup does: another may be there
		_ = f.Close()
		return Lock(path)
	}
	return func() { _ = f.Close() }, nil
}

// How long and how often a lock that others hold for a moment is tried.
const (
	lockPatience = 5 * time.Second
	lockRetry    = 5 * time.Millisecond
)

// lockBriefly is Lock for who waits a little, until ctx ends: others hold it for a moment only.
// The file is for this user alone, so that nobody else can hold it, and goes with the lock.
func lockBriefly(ctx context.Context, path string) (unlock func(), err error) {
	for end := time.Now().Add(lockPatience); ; {
		f, err := openLock(path)
		if err != nil {
			return nil, err
		}
		if err = flock(f); err == nil && is(path, f) {
			return func() { _, _ = os.Remove(path), f.Close() }, nil
		}
		_ = f.Close()
		switch {
		case err != nil && !errors.Is(err, unix.EWOULDBLOCK):
			return nil, err
		case time.Now().After(end):
			return nil, fmt.Errorf("%w: another process keeps %s locked", ErrInUse, path)
		case !Pause(ctx, lockRetry):
			return nil, ctx.Err()
		}
	}
}

func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		_ = f.Close()
		return nil, fmt.Errorf("%s belongs to another user; remove it", path)
	}
	return f, nil
}

// is reports whether an open file is the one at a path: who had it locked may have
// removed it meanwhile, and somebody else locked the next.
func is(path string, f *os.File) bool {
	of, err := f.Stat()
	at, there := os.Lstat(path)
	return err == nil && there == nil && os.SameFile(of, at)
}

// flock tries to lock an open file for itself.
func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
