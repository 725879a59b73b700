package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse marks a socket or a lock that another process holds.
var ErrInUse = errors.New("in use")

// CheckTCP refuses what is no address to listen on, the value of a flag; none is
// fine.
func CheckTCP(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if address == "" || err == nil {
		return nil
	}
	return fmt.Errorf("--%s %q is no address and port, as 127.0.0.1:8080 or [::1]:8080", flag, address)
}

// ListenTCP listens on an address, Bound.
func ListenTCP(address string, log *slog.Logger) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: %w; `ss -ltnp` names the process that has it: stop it, or listen elsewhere", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return Bound(l, log), nil
}

const (
	socketMode = 0o660 // owner and group
	// maxSocketPath is what sun_path holds, without its end (unix(7)).
	maxSocketPath = 107
	// dialTimeout is how long a listener may take to be recognised as one.
	dialTimeout = time.Second
)

// ListenUnix opens a socket, Bound, for the owner and the group; directories that
// are not there are made. What a process that is gone left at the path is
// replaced, without a moment in which others may connect who may not. Where
// somebody listens, it is ErrInUse; what is no socket is refused.
//
// The socket stays when the listener is closed: a successor may have replaced
// it already. While a Group or ServeUntil serves it, it is opened again where its
// path no longer leads to it.
func ListenUnix(path string, log *slog.Logger) (net.Listener, error) {
	return ListenUnixMode(path, socketMode, log)
}

// ListenUnixMode is ListenUnix for others: the socket has the mode before it is at the path.
func ListenUnixMode(path string, mode fs.FileMode, log *slog.Logger) (net.Listener, error) {
	opened, err := openUnix(context.Background(), path, mode)
	if err != nil {
		return nil, err
	}
	socket := &pathSocket{last: opened}
	return &unixListener{Listener: Bound(socket, log), socket: socket, path: path, mode: mode, log: log}, nil
}

// openUnix opens a socket, and waits for nobody any more once ctx ends.
func openUnix(ctx context.Context, path string, mode fs.FileMode) (opened socketFile, err error) {
	if len(path) > maxSocketPath {
		return opened, fmt.Errorf("listen on %s: the path has %d bytes, a socket's may have %d; choose a shorter one", path, len(path), maxSocketPath)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return opened, fmt.Errorf("listen on %s: %w", path, err)
	}
	// From the look at what is there to the rename over it, others who open
	// this socket wait.
	unlock, err := lockBriefly(ctx, beside(path, "lock"))
	if err != nil {
		return opened, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer unlock()
	if err := replaceable(ctx, path); err != nil {
		return opened, err
	}
	if opened, err = bindOver(path, mode); err != nil {
		return opened, fmt.Errorf("listen on %s: %w", path, err)
	}
	return opened, nil
}

// RemoveUnix removes the socket that a listener of ListenUnix left when it was
// closed, for a start that failed and leaves nothing. What somebody listens on
// by now is his, and stays.
func RemoveUnix(path string) error {
	unlock, err := lockBriefly(context.Background(), beside(path, "lock"))
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	defer unlock()
	if replaceable(context.Background(), path) != nil {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket: %w", err)
	}
	return nil
}

// replaceable reports an error unless nothing is at path or a socket that
// nobody listens on.
func replaceable(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("listen on %s: something that is no socket is there; remove it or choose another path", path)
	}
	if listens(ctx, path) {
		return fmt.Errorf("%w: somebody listens on %s already; stop it or choose another path", ErrInUse, path)
	}
	return nil
}

// Listens reports whether somebody listens on a socket. Any other answer than a refusal
// is of somebody who is there: one whose queue is full, who is slow, or whom we may not
// reach.
func Listens(path string) bool { return listens(context.Background(), path) }

// listens takes it that somebody is there where ctx ends.
func listens(ctx context.Context, path string) bool {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return !errors.Is(err, unix.ECONNREFUSED)
}

// Beside are the lock and the directory that a process may leave beside a socket if it
// dies while it opens it.
func Beside(path string) (lock, dir string) { return beside(path, "lock"), beside(path, "tmp") }

// bindOver binds in a directory that nobody else enters, sets the mode there,
// and renames the socket to path. The caller holds the path's lock: a temporary
// directory that is there is a dead process's.
func bindOver(path string, mode fs.FileMode) (opened socketFile, err error) {
	tmp := beside(path, "tmp")
	born := filepath.Join(tmp, "s") // a long name of the path's would not fit behind a descriptor's
	remove := func() {              // what else is in it is somebody's
		for _, left := range []string{born, filepath.Join(tmp, filepath.Base(path)), tmp} { // versions before used that name
			_ = os.Remove(left)
		}
	}
	remove()
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return opened, fmt.Errorf("%w; remove what is there, which is none of gridmesh's", err)
	}
	defer remove()
	l, err := bind(tmp, born)
	if err != nil {
		return opened, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(born, mode); err == nil {
		opened.file, err = os.Lstat(born)
	}
	if err == nil {
		err = os.Rename(born, path)
	}
	if err != nil {
		return opened, errors.Join(err, l.Close())
	}
	opened.UnixListener = l
	return opened, nil
}

// beside is a hidden name in path's directory.
func beside(path, what string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+what)
}

// bind binds at born, in dir; by way of dir's descriptor where the path is
// longer than sun_path.
func bind(dir, born string) (*net.UnixListener, error) {
	at := born
	if len(born) > maxSocketPath {
		d, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		at = filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), filepath.Base(born))
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
}
