package source

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// oddPaths are paths that lead to no file and no directory.
func oddPaths(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	pipe, link, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "s.sock")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return map[string]string{"a pipe": pipe, "a link to a pipe": link, "a socket": socket, "a device": os.DevNull}
}

// inTime is what f returns, which takes no time to speak of.
func inTime(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for ever")
		return nil
	}
}

// What is neither file nor directory has no end, or nobody who writes: it is
// refused at once, also where it took a file's place after the look at it.
func TestNoFilesAreRefused(t *testing.T) {
	for name, path := range oddPaths(t) {
		if err := inTime(t, func() error { return NewDir(path).Run(t.Context()) }); err == nil || !strings.Contains(err.Error(), "is neither a file nor a directory") {
			t.Errorf("%s: %v", name, err)
		}
		if name == "a socket" { // cannot be opened
			continue
		}
		if err := inTime(t, func() error { return new(manifests).file(&file{path: path}) }); err == nil || !strings.Contains(err.Error(), "is no file") {
			t.Errorf("%s in a file's place: %v", name, err)
		}
	}
}

// A directory of more than is meant is refused before it is read, and one that
// has become it leaves what was read last.
func TestDirectoriesAreBounded(t *testing.T) {
	dir := t.TempDir()
	d := NewDir(dir)
	if err := d.refresh(); err != nil {
		t.Fatal(err)
	}
	for i := range MaxDir/MaxFile + 1 {
		path := filepath.Join(dir, fmt.Sprint(i, ".yaml"))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, MaxFile); err != nil {
			t.Fatal(err)
		}
	}
	limit := fmt.Sprint("more than ", MaxDir, " bytes of manifests")
	if err := NewDir(dir).refresh(); err == nil || !strings.Contains(err.Error(), limit) {
		t.Errorf("error %v, want %q", err, limit)
	}
	if err := d.refresh(); err != nil {
		t.Error(err)
	}
	if p := newest(&d.Snapshots).Problems; len(p) != 1 || !strings.Contains(p[0].Text, limit) {
		t.Errorf("problems %v", p)
	}
}
