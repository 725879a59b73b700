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
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ofWriter is in the names of temporary files, behind the name of what they are to be.
const ofWriter = ".tmp-"

// Of is the name of the file that a name belongs to: of what a writer left beside it, as
// of the file itself.
func Of(name string) (file string, left bool) {
	if hidden, ok := strings.CutPrefix(name, "."); ok {
		if file, _, left := strings.Cut(hidden, ofWriter); left {
			return file, true
		}
	}
	return name, false
}

// Left are the paths of what writers of a file left beside it, or write at the moment.
func Left(path string) (paths []string, err error) {
	dir, name := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if file, left := Of(e.Name()); left && file == name {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// leftoverAge is when a temporary file is surely a dead writer's.
const leftoverAge = time.Hour

// Write replaces path with data, mode 0600. The data and the directory entry
// are on disk when it returns. After an error the old content is there, unless
// only the directory could not be synced.
func Write(path string, data []byte) error { return write(path, data, 0o600) }

// WriteShared is Write with mode 0644, for what other users are to read.
func WriteShared(path string, data []byte) error { return write(path, data, 0o644) }

func write(path string, data []byte, mode os.FileMode) error {
	sweep(path)
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+ofWriter+"*") // never one that is there: it may be somebody else's
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
func sweep(path string) {
	list, _ := Left(path)
	for _, left := range list {
		if info, err := os.Lstat(left); err == nil && time.Since(info.ModTime()) > leftoverAge {
			_ = os.Remove(left)
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
