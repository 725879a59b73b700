// Package once tests the script that makes what the builds of this repository
// keep in a cache.
package once

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// count is a command that notes each of its runs, waits until it may go on, and
// then makes its target.
const count = `echo run >>"$DIR/runs"; cat "$DIR/go" >/dev/null; echo whole >"$0"`

func start(t *testing.T, dir, target, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./once", target, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// awaitRun returns when a run of count waits; closing what it returns lets it go on.
func awaitRun(t *testing.T, dir string) *os.File {
	t.Helper()
	pipe, err := os.OpenFile(filepath.Join(dir, "go"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pipe
}

func setup(t *testing.T) (dir, target string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "cache", "program")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Two checkouts share one cache, and their owner builds both at once.
func TestTwoAtOnce(t *testing.T) {
	dir, target := setup(t)
	first := start(t, dir, target, count)
	second := exec.CommandContext(t.Context(), "./once", target, "sh", "-c", count)
	second.Env = append(os.Environ(), "DIR="+dir)
	said, err := second.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	waiting := awaitRun(t, dir)
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("another"))
	if _, err := io.ReadFull(said, line); err != nil || string(line) != "another" {
		t.Fatalf("the second said %q (%v), not that another is at it", line, err)
	}
	if err := waiting.Close(); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{first, second} {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if runs := read(t, filepath.Join(dir, "runs")); runs != "run" {
		t.Errorf("made more than once: %q", runs)
	}
	if text := read(t, target); text != "whole" {
		t.Errorf("made: %q", text)
	}
}

// What was killed in the middle, or failed, is not taken for made.
func TestKilledInTheMiddle(t *testing.T) {
	dir, target := setup(t)
	for _, script := range []string{`echo half >"$0"; kill -9 $PPID $$`, `echo half >"$0"; exit 3`} {
		err := start(t, dir, target, script).Wait()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Fatalf("%s ended with %v", script, err)
		}
		if _, err := os.Stat(target); !os.IsNotExist(err) {
			t.Fatalf("after %s the target is there (%v)", script, err)
		}
	}
	if err := start(t, dir, target, `echo whole >"$0"`).Wait(); err != nil {
		t.Fatal(err)
	}
	if text := read(t, target); text != "whole" {
		t.Errorf("made: %q", text)
	}
}
