package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// noFile is why a pipe or a device is not read: it has no end, or waits for who writes.
const noFile = "it is no file"

// list returns the manifests under path, by path, unread.
func list(path string) (files []file, err error) {
	top, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", withPath(path, err))
	}
	if info, err := os.Stat(top); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read manifests: %s is neither a file nor a directory (its mode is %s); give one of these", path, info.Mode())
	}
	var bytes int64
	err = filepath.WalkDir(top, func(p string, e os.DirEntry, err error) error {
		if err != nil && p == top {
			return err
		}
		if err != nil {
			files = append(files, file{name: below(top, p), path: p, fault: err.Error(), folder: true})
			return nil //nolint:nilerr // the others go on
		}
		if e.IsDir() && p != top && strings.HasPrefix(e.Name(), ".") { // as .git, and what a mounted ConfigMap's links lead to
			return filepath.SkipDir
		}
		if e.IsDir() || p != top && !isManifest(p) {
			return nil
		}
		f, size, there := look(p)
		if there {
			f.name = below(top, p)
			if p == top {
				f.asked = path
			}
			files = append(files, f)
		}
		if bytes += size; bytes > MaxDir {
			return fmt.Errorf("%s has more than %d bytes of manifests; give a directory of what is meant", path, MaxDir)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return files, nil
}

// below is a path below another, "." for that itself.
func below(top, path string) string {
	name, err := filepath.Rel(top, path)
	if err != nil {
		return path
	}
	return name
}

// withPath has an error of EvalSymlinks name the path, which some do not.
func withPath(path string, err error) error {
	if named := (*os.PathError)(nil); errors.As(err, &named) {
		return err
	}
	return fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "EvalSymlinks: "))
}

// look says what is at a path, how many bytes of it will be read, and whether it is
// one to read.
func look(p string) (f file, size int64, there bool) {
	f = file{path: p}
	info, err := os.Stat(p) // of what a link leads to, as a mounted ConfigMap's do
	switch {
	case errors.Is(err, os.ErrNotExist):
		if link, err := os.Lstat(p); err != nil || link.Mode()&os.ModeSymlink == 0 {
			return f, 0, false // since the folder was read
		}
		f.fault = "it is a link that leads to nothing; lead it to a file, or remove it"
	case err != nil:
		f.fault = err.Error()
	case info.IsDir():
		return f, 0, false
	case !info.Mode().IsRegular():
		f.fault = noFile
	default:
		f.version = version(info, time.Now())
		if size = info.Size(); size > MaxFile { // it is left out
			size = 0
		}
	}
	return f, size, true
}

// settled is how long a file must have been as it is: of two writes within a tick of
// the clock that gives files their times, 10 ms at most, those of the second are the
// first's.
const settled = 100 * time.Millisecond

// version differs when the content of a file may: a file put in its place has
// another inode, and no clock or tool sets back the time of the last change. Of one
// that was changed a moment ago nobody knows.
func version(info os.FileInfo, now time.Time) string {
	st := info.Sys().(*syscall.Stat_t)
	if now.Sub(time.Unix(st.Ctim.Unix())).Abs() < settled {
		return ""
	}
	return fmt.Sprint(info.Size(), st.Dev, st.Ino, st.Mtim.Nano(), st.Ctim.Nano())
}
