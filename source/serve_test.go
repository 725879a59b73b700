package source

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
)

// lacking tells of what its listener says when it accepts nothing.
type lacking struct {
	net.Listener
	lacks chan error
}

func (l *lacking) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		select {
		case l.lacks <- err:
		default:
		}
	}
	return c, err
}

// A process without descriptors serves again when it has some.
func TestServeOutlivesAFullDescriptorTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", path) // it waits to be accepted
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	served := &Snapshots{}
	served.Publish(topology.NewBuilder().Build())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fill := fullDescriptors(t)
	lacks, done := make(chan error, 1), make(chan error, 1)
	go func() { done <- Serve(ctx, run.Bound(&lacking{l, lacks}, slog.Default()), served, served.LastContact) }()
	select {
	case err = <-lacks:
	case <-time.After(time.Minute):
	}
	fill()
	if !errors.Is(err, unix.EMFILE) {
		t.Fatalf("accept: %v, want EMFILE", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := NewDecoder(conn); err != nil {
		t.Errorf("nobody is served: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// fullDescriptors leaves this process no free descriptor, until free is called.
func fullDescriptors(t *testing.T) (free func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	next, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	free = func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next.Fd()), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	return free
}
