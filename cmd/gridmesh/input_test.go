package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
)

// An agent that is not there, or has ended, is told from one that is silent, at
// once.
func TestReachable(t *testing.T) {
	dir := t.TempDir()
	none, stale, open := filepath.Join(dir, "none.sock"), filepath.Join(dir, "stale.sock"), filepath.Join(dir, "open.sock")
	for _, path := range []string{stale, open} {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if path == stale {
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			_ = l.Close()
			continue
		}
		defer l.Close()
	}
	if err := reachable(t.Context(), none); errors.Is(err, run.ErrUsage) || !errors.Is(err, errNoAgent) || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("a socket that is not there: %v", err)
	}
	if err := reachable(t.Context(), stale); err == nil || !strings.Contains(err.Error(), "is gridmesh-agent running") {
		t.Errorf("a socket that nobody serves: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, dir} {
		if err := reachable(t.Context(), path); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), "is no socket") {
			t.Errorf("%s: %v", path, err)
		}
	}
	link := filepath.Join(dir, "link.sock")
	if err := syscall.Symlink(link, link); err != nil {
		t.Fatal(err)
	}
	if err := reachable(t.Context(), link); err == nil || strings.Contains(err.Error(), "is not there") {
		t.Errorf("a socket that cannot be looked at: %v", err)
	}
	if err := reachable(t.Context(), open); err != nil {
		t.Errorf("a socket that somebody serves: %v", err)
	}
}

// mute is a feed that says nothing.
type mute struct{}

func (mute) Run(ctx context.Context) error   { <-ctx.Done(); time.Sleep(time.Minute); return nil }
func (mute) Get() (*topology.Snapshot, bool) { return nil, false }
func (mute) Wake() <-chan struct{}           { return nil }

// After a moment people read what is missing, and at the end once more; at the
// end of --timeout, and not when all that was begun has ended.
func TestSilenceIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := &reach{cmd: &cobra.Command{}, timeout: 10 * time.Second}
		r.cmd.SetErr(&out)
		began := time.Now()
		_, err := r.first(t.Context(), mute{}, "the agent", func() string { return "its state" })
		if err == nil || !strings.Contains(err.Error(), "missing: its state") || !strings.Contains(err.Error(), "--timeout") || time.Since(began) != r.timeout {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "waiting up to 10s for the agent: its state") {
			t.Errorf("meanwhile people read %q", text)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.first(ctx, mute{}, "the agent", func() string { return "its state" }); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "--timeout") {
			t.Errorf("interrupted: %v", err)
		}
		time.Sleep(time.Hour) // until what was begun has ended
	})
}
