package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "lock")
	unlock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path+" is locked") {
		t.Errorf("error %v", err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	unlock()
	unlock, err = Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestLockEndsWithItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	killed(t, "lock", path)
	unlock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestLockOfWhatCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrNoLock) || errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path+" is a directory, where a file is to be; move it away") {
		t.Errorf("error %v", err)
	}
}

// A link leads to somebody else's file, which is not made and not locked.
func TestLockFollowsNoLink(t *testing.T) {
	path, other := filepath.Join(t.TempDir(), "lock"), filepath.Join(t.TempDir(), "other")
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrNoLock) || !strings.Contains(err.Error(), path+" is a link; remove it") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(other); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what it leads to: %v", err)
	}
}
