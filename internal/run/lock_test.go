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
	if _, err := Lock(path); err == nil || errors.Is(err, ErrInUse) {
		t.Errorf("error %v", err)
	}
}
