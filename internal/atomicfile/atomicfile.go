// Package atomicfile replaces files so that a crash, a full disk or a power
// cut leaves either the old content or the new, never half of it.
//
// The new content is written beside the file, as ".name.tmp", and renamed over
// it when it is on disk. Several processes may write the same file: they wait
// for each other, and the last one wins. What one that died left beside the
// file is at most one such temporary file, which the next write uses.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Write replaces path with data, mode 0600. The data and the directory entry
// are on disk when it returns. After an error the old content is there, unless
// only the directory could not be synced.
func Write(path string, data []byte) error { return write(path, data, 0o600) }

// WriteShared is Write with mode 0644, for what other users are to read.
func WriteShared(path string, data []byte) error { return write(path, data, 0o644) }

func write(path string, data []byte, mode os.FileMode) error {
	f, err := openTemp(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp"))
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	// The lock ends with the file, after the rename or the removal.
	if err = fill(f, data, mode); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, errors.Join(err, os.Remove(f.Name()), f.Close()))
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// openTemp opens the temporary file and locks it. One that a dead process
// left, or that somebody wrote to until now, is there already.
func openTemp(name string) (*os.File, error) {
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// Whoever held the lock has renamed or removed what we opened.
		ours, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Lstat(name); err == nil && os.SameFile(ours, there) {
			return f, nil
		}
		_ = f.Close()
	}
}

func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// fill makes f hold data, on disk. The mode comes first: what a dead process
// left may be open to more readers.
func fill(f *os.File, data []byte, mode os.FileMode) error {
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDir makes renames and removals in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
