package run

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// What goes from the path comes again: for who dials it, with its mode, and without who
// is connected noticing.
func TestASocketThatIsGoneComesAgain(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"removed":                  os.Remove,
		"with its directory":       func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"moved with its directory": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
		"for one of the dead": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return l.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d", "s")
			l := listenUnixMode(t, path)
			connected := connect(t, l, path)
			wantLook(t, l, false)
			for range 2 {
				if err := take(path); err != nil {
					t.Fatal(err)
				}
				wantLook(t, l, true)
				wantLook(t, l, false)
				if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the mode is %v, %v", info.Mode(), err)
				}
				connect(t, l, path)()
				_ = os.RemoveAll(filepath.Dir(path) + ".old")
			}
			connected()
			if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
				t.Errorf("the directory holds %v, %v", list, err)
			}
		})
	}
}

// A mount over the directory hides the socket, and has none.
func TestASocketBehindAMountComesAgain(t *testing.T) {
	ended := make(chan bool)
	go func() { // its thread, which sees mounts of its own, ends with it
		defer close(ended)
		runtime.LockOSThread()
		path := filepath.Join(t.TempDir(), "s")
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			t.Log("not tested, for it needs root:", err)
			return
		}
		l := listenUnixMode(t, path)
		if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", filepath.Dir(path), "tmpfs", 0, "")); err != nil {
			t.Error(err)
			return
		}
		wantLook(t, l, true)
		wantLook(t, l, false)
		connect(t, l, path)()
	}()
	<-ended
}

// What is somebody else's stays, whatever it is; the socket is there once that is gone,
// and who is connected stays.
func TestASocketComesOverNobodyElses(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, path string){
		"a file": func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a link":       func(t *testing.T, path string) { _ = os.Symlink("/nowhere", path) },
		"who listens":  func(t *testing.T, path string) { listenUnix(t, path) },
		"a directory":  func(t *testing.T, path string) { _ = os.Mkdir(path, 0o700) },
		"of datagrams": func(t *testing.T, path string) { socket(t, unix.SOCK_DGRAM, path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			l := listenUnixMode(t, path)
			connected := connect(t, l, path)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			put(t, path)
			before, _ := os.Lstat(path)
			if again, err := l.look(t.Context()); again || err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("opened again: %t, %v", again, err)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("what was there is not: %v", err)
			}
			connected()
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			wantLook(t, l, true)
			connect(t, l, path)()
		})
	}
}

// While it cannot be opened that is said now and then, and at once where it can be again.
func TestTheLogOfASocketThatDoesNotComeAgainIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := listenUnixMode(t, path)
	var log lockedBuffer
	l.log = slog.New(slog.NewTextHandler(&log, nil))
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		stop := l.keeping(t.Context())
		defer stop()
		wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		wait(keepEvery)
		if n := strings.Count(log.String(), "tried again"); n != 1 {
			t.Errorf("at first %d lines:\n%s", n, &log)
		}
		wait(time.Hour)
		if n := strings.Count(log.String(), "tried again"); n < 6 || n > 12 {
			t.Errorf("after an hour %d lines", n)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		wait(keepMost)
		if n := strings.Count(log.String(), "open there again"); n != 1 {
			t.Errorf("once it is free %d lines:\n%s", n, &log)
		}
	})
	connect(t, l, path)()
}

// A listener that no group was given, for it came late, is kept as well, and closed at the end.
func TestASocketThatCameLateIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := listenUnixMode(t, path)
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- ServeUntil(ctx, l, func(ctx context.Context, _ net.Listener) error { <-ctx.Done(); return errBroken })
		}()
		synctest.Wait()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(keepEvery)
		synctest.Wait()
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("it is not there again: %v", err)
		}
		end()
		if err := <-ended; !errors.Is(err, errBroken) {
			t.Errorf("ended with %v", err)
		}
		synctest.Wait()
	})
	if Listens(path) {
		t.Error("it is still open")
	}
}

// Who is to end waits for nobody who has the lock of a socket, and says nothing of that.
func TestASocketThatDoesNotComeAgainHoldsUpNoEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := listenUnixMode(t, path)
	var log lockedBuffer
	l.log = slog.New(slog.NewTextHandler(&log, nil))
	unlock, err := lockBriefly(t.Context(), beside(path, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		stop := l.keeping(t.Context())
		time.Sleep(keepEvery + lockPatience/2)
		began := time.Now()
		if stop(); time.Since(began) > lockRetry {
			t.Errorf("it ends after %s", time.Since(began))
		}
	})
	if log.String() != "" {
		t.Errorf("said is\n%s", &log)
	}
}

// One that is closed while it is opened again stays closed.
func TestASocketThatIsClosedDoesNotComeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := listenUnixMode(t, path)
	_ = l.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.look(t.Context()); err != nil {
		t.Error(err)
	}
	if Listens(path) {
		t.Error("somebody listens")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
}

// A group keeps what it serves, also while its member waits for the next connection.
func TestAGroupKeepsItsSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := listenUnixMode(t, path)
	var g Group
	g.AddListener("server", l, func(_ context.Context, l net.Listener) error {
		for {
			conn, err := l.Accept()
			if err != nil {
				return err
			}
			_ = conn.Close()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*keepEvery)
	defer cancel()
	g.AddTask("who removes it", func(ctx context.Context) error {
		defer cancel()
		if err := os.Remove(path); err != nil {
			return err
		}
		for {
			conn, err := net.Dial("unix", path)
			if err == nil {
				return conn.Close()
			}
			if !Pause(ctx, 10*time.Millisecond) {
				t.Error("nobody listens there again: ", err)
				return nil
			}
		}
	})
	if err := g.Run(ctx); err != nil {
		t.Error(err)
	}
}

// lockedBuffer is read while it is written to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func listenUnixMode(t *testing.T, path string) *unixListener {
	t.Helper()
	l, err := ListenUnixMode(path, 0o600, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*unixListener)
}

func wantLook(t *testing.T, l *unixListener, want bool) {
	t.Helper()
	if again, err := l.look(t.Context()); err != nil || again != want {
		t.Errorf("opened again: %t, %v; want %t", again, err, want)
	}
}

// connect dials path and accepts that of l; what it returns checks that the connection
// is still there, and closes it.
func connect(t *testing.T, l net.Listener, path string) (stillThere func()) {
	t.Helper()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		defer client.Close()
		defer server.Close()
		if _, err := server.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if n, err := client.Read(make([]byte, 2)); n != 1 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
	}
}
