// Package atomicfile replaces files so that a crash, a full disk or a power
// cut leaves either the old content or the new, never half of it.
//
// The new content is written beside the file, under a name that nobody can
// have taken, and renamed over it when it is on disk. Of several writers the
// last one wins. What one that died left beside the file is removed by a later
// write.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// leftoverAge is when a temporary file is surely a dead writer's.
const leftoverAge = time.Hour

// Write replaces path with data, mode 0600. The data and the directory entry
// are on disk when it returns. After an error the old content is there, unless
// only the directory could not be synced.
func Write(path string, data []byte) error { return write(path, data, 0o600) }

// WriteShared is Write with mode 0644, for what other users are to read.
func WriteShared(path string, data []byte) error { return write(path, data, 0o644) }

func write(path string, data []byte, mode os.FileMode) error {
	dir, prefix := filepath.Dir(path), "."+filepath.Base(path)+".tmp-"
	sweep(dir, prefix)
	f, err := os.CreateTemp(dir, prefix+"*") // never one that is there: it may be somebody else's
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err = errors.Join(fill(f, data, mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return SyncDir(dir)
}

// sweep removes what writers left that died long ago. Where it cannot, the
// next write tries again.
func sweep(dir, prefix string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftoverAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// fill makes f hold data, on disk.
func fill(f *os.File, data []byte, mode os.FileMode) error {
	if err := f.Chmod(mode); err != nil {
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
