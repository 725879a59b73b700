package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const mostOfTest = 1 << 20

// odd are ways to put at a path what is no file, or none that can be read.
var odd = map[string]func(path string) error{
	"a pipe":           func(path string) error { return unix.Mkfifo(path, 0o600) },
	"a link to zeroes": func(path string) error { return os.Symlink("/dev/zero", path) },
	"a link to nobody": func(path string) error { return os.Symlink("/nowhere", path) },
	"a link to a file": func(path string) error { return os.Symlink("/proc/self/status", path) },
	"a directory":      func(path string) error { return os.Mkdir(path, 0o700) },
	"a full directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "sub"), 0o700) },
	"a file of 8 GiB": func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 8<<30))
	},
	"a file of a byte too much": func(path string) error { return os.WriteFile(path, make([]byte, mostOfTest+1), 0o600) },
}

// Whatever is in the place of a file is refused at once, and can be set aside,
// whatever was set aside before, but for a directory of somebody's files.
func TestOddFiles(t *testing.T) {
	for name, put := range odd {
		for before, putBefore := range odd {
			path := filepath.Join(t.TempDir(), "state")
			if err := put(path); err != nil {
				t.Fatal(name, err)
			}
			if data, _, err := Read(path, mostOfTest); !errors.Is(err, ErrOdd) || len(data) > 0 || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %d bytes, %v", name, len(data), err)
			}
			if before != "a full directory" {
				if err := putBefore(path + ".bad"); err != nil {
					t.Fatal(err)
				}
			}
			aside, err := SetAside(path)
			if _, there := os.Lstat(aside); err != nil || there != nil {
				t.Errorf("%s in the place of %s: %v, %v", name, before, err, there)
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is still there: %v", name, err)
			}
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if _, _, err := Read(path, mostOfTest); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrOdd) {
		t.Errorf("none: %v", err)
	}
	if _, err := SetAside(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	want := strings.Repeat("x", mostOfTest)
	write2(t, path, want)
	data, info, err := Read(path, mostOfTest)
	if err != nil || string(data) != want || info.Size() != mostOfTest || info.Name() != "state" {
		t.Errorf("%d bytes, %v, %v", len(data), info, err)
	}
}
