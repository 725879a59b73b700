package run

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
)

// How often a socket's path is looked at, and how much less often where it cannot be
// opened again.
const (
	keepEvery = 2 * time.Second
	keepMost  = time.Minute
)

// unixListener is known by the path it was renamed to. ServeUntil keeps it there.
type unixListener struct {
	net.Listener // Bound, of socket
	socket       *pathSocket
	path         string
	mode         fs.FileMode
	log          *slog.Logger
}

// Addr implements net.Listener.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// keeping keeps the socket at its path, until ctx ends or it is told to stop.
func (l *unixListener) keeping(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.keep(ctx)
	}()
	return func() { cancel(); <-ended }
}

func (l *unixListener) keep(ctx context.Context) {
	var gone, back quiet.Line
	for pause := keepEvery; Pause(ctx, pause); {
		again, err := l.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = min(2*pause, keepMost)
			gone.Say(l.log.Warn, "nobody new finds a socket: its path leads elsewhere, and it is not opened there again; who is connected stays; it is tried again", obs.KeyErr, err)
			continue
		case again:
			back.Say(l.log.Warn, "a socket was gone from its path, and is open there again; who was connected stays", obs.KeyName, l.path)
		}
		pause = keepEvery
	}
}

// look opens the socket again where its path does not lead to it: who removed it, or what
// is mounted over it, would leave a program that serves nobody new. What is somebody
// else's there stays, and is an error.
func (l *unixListener) look(ctx context.Context) (again bool, err error) {
	if at, err := os.Lstat(l.path); err == nil && os.SameFile(at, l.socket.get().file) {
		return false, nil
	}
	next, err := openUnix(ctx, l.path, l.mode)
	if err != nil {
		return false, err
	}
	return true, l.socket.replace(next)
}

// socketFile is a socket that listens, and the file that it was bound as: none else has
// its number while the socket is open.
type socketFile struct {
	*net.UnixListener
	file fs.FileInfo
}

// pathSocket accepts from the socket that was opened last.
type pathSocket struct {
	mu     sync.Mutex
	last   socketFile
	closed bool
}

func (s *pathSocket) get() socketFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// replace closes the socket for another one; what it accepted stays open.
func (s *pathSocket) replace(next socketFile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return next.Close()
	}
	old := s.last
	s.last = next
	return old.Close()
}

// Accept implements net.Listener.
func (s *pathSocket) Accept() (net.Conn, error) {
	for {
		from := s.get()
		conn, err := from.Accept()
		if !errors.Is(err, net.ErrClosed) || from.UnixListener == s.get().UnixListener {
			return conn, err
		}
	}
}

// Close implements net.Listener.
func (s *pathSocket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.last.Close()
}

// Addr implements net.Listener.
func (s *pathSocket) Addr() net.Addr { return s.get().Addr() }
