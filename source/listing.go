package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// noFile is why a pipe or a device is not read: it has no end, or waits for who writes.
const noFile = "it is no file"

// list returns the manifests under path, by path, unread.
func list(path string) ([]file, error) { return listed(path, func(string) bool { return false }) }

// listed does so for who may have had files below a folder, by its name.
func listed(path string, had func(folder string) bool) (files []file, err error) {
	top, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", withPath(path, err))
	}
	if info, err := os.Stat(top); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read manifests: %s is neither a file nor a directory (its mode is %s); give one of these", path, info.Mode())
	}
	l := lister{path: path, top: top, linked: mostHidden, had: had}
	if err := l.walk(top, top); err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return l.files, nil
}

// lister finds manifests.
type lister struct {
	path, top string // as it was given, and where that is
	files     []file
	bytes     int64
	linked    int // files that may be looked at behind links to other folders
	had       func(folder string) bool
}

// walk finds those below a folder, as it is called: a link may lead there.
func (l *lister) walk(dir, as string) error {
	return filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil && p == l.top {
			return err
		}
		called := p
		if dir != as {
			called = as + p[len(dir):]
		}
		if err != nil {
			l.unread(called, err.Error())
			return nil // the others go on
		}
		if e.IsDir() && p != dir && strings.HasPrefix(e.Name(), ".") { // as .git, and what a mounted ConfigMap's links lead to
			return filepath.SkipDir
		}
		if e.Type()&os.ModeSymlink != 0 && p != dir {
			to, err := leadsToFolder(p)
			if to != "" {
				return l.link(called, to, dir == l.top)
			}
			if err != nil && !isManifest(p) && !strings.HasPrefix(e.Name(), ".") && l.had(below(l.top, called)) {
				l.unread(called, err.Error())
				return nil
			}
		}
		if e.IsDir() || p != l.top && (!isManifest(p) || ofEditors(e.Name())) {
			return nil
		}
		return l.add(called)
	})
}

// unread tells of a folder.
func (l *lister) unread(p, why string) {
	l.files = append(l.files, file{name: below(l.top, p), path: p, fault: why, folder: true})
}

func (l *lister) add(p string) error {
	f, size, there := look(p)
	if there {
		f.name = below(l.top, p)
		if p == l.top {
			f.asked = l.path
		}
		l.files = append(l.files, f)
	}
	if l.bytes += size; l.bytes > MaxDir {
		return fmt.Errorf("%s has more than %d bytes of manifests; give a directory of what is meant", l.path, MaxDir)
	}
	return nil
}

// leadsToFolder is where a link leads, if that is a folder; "" if it is none, or if it is not known.
func leadsToFolder(link string) (to string, err error) {
	switch info, err := os.Stat(link); {
	case errors.Is(err, os.ErrNotExist):
		return "", errors.New("it is a link that leads to nothing; lead it to a folder, or remove it")
	case err != nil || !info.IsDir():
		return "", err
	}
	return filepath.EvalSymlinks(link)
}

// link follows a link to a folder that is read nowhere else: of a ConfigMap whose keys are mounted into folders the
// links lead to hidden ones beside. Where another one leads is told, if there are manifests.
// Hidden ones are not read, and no link behind a link is followed: it may lead round.
func (l *lister) link(p, to string, first bool) error {
	if strings.HasPrefix(filepath.Base(p), ".") {
		return nil
	}
	rest := below(l.top, to)
	steps := strings.Split(rest, string(filepath.Separator))
	if within := steps[0] != ".." && !filepath.IsAbs(rest); first && within && slices.ContainsFunc(steps, func(s string) bool { return len(s) > 1 && s[0] == '.' }) {
		return l.walk(to, p)
	}
	if holds, all := holdsManifests(to, &l.linked); holds || !all && l.had(below(l.top, p)) {
		l.unread(p, "it is a link to a folder, which is not followed; put the folder here, or give that one")
	}
	return nil
}

// ofEditors reports whether a name is that of what editors and copying tools put beside a file: a lock of Emacs, the other
// half of a file of a Mac.
func ofEditors(name string) bool {
	return strings.HasPrefix(name, ".#") || strings.HasPrefix(name, "._")
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
		f.is, f.version = identity(info), version(info, time.Now())
		if size = info.Size(); size > MaxFile { // it is left out
			size = 0
		}
	}
	return f, size, true
}

// identity is that of a file on its disk.
func identity(info os.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(st.Dev, st.Ino)
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
