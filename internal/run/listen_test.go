package run

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestListenUnixServes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "too", "x.sock")
	l := listenUnix(t, path)
	if l.Addr().String() != path {
		t.Errorf("address %s, want %s", l.Addr(), path)
	}
	answers(t, l, path)
	// Nothing else is left in the directory.
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("the directory holds %v, %v", list, err)
	}
}

// The mode is the same under every umask, and no umask is changed for it.
func TestListenUnixMode(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		was := unix.Umask(umask)
		path := filepath.Join(t.TempDir(), "x.sock")
		l, err := ListenUnix(path, slog.Default())
		if now := unix.Umask(was); now != umask {
			t.Errorf("the umask is %o, was %o", now, umask)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != socketMode {
			t.Errorf("umask %o: %v, %v", umask, info.Mode(), err)
		}
	}
	path := filepath.Join(t.TempDir(), "x.sock")
	l, err := ListenUnixMode(path, 0o600, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("of the owner alone: %v, %v", info.Mode(), err)
	}
}

func TestListenUnixReplacesWhatTheDeadLeft(t *testing.T) {
	t.Run("a killed process", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.sock")
		killed(t, "listen", path)
		answers(t, listenUnix(t, path), path)
	})
	t.Run("a stopped one", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.sock")
		first := listenUnix(t, path)
		_ = first.Close()
		second := listenUnix(t, path)
		_ = first.Close() // takes nothing from its successor
		answers(t, second, path)
	})
	t.Run("one killed between bind and rename", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.sock")
		tmp := filepath.Join(filepath.Dir(path), ".x.sock.tmp")
		if err := os.Mkdir(tmp, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = listenUnix(t, filepath.Join(tmp, "x.sock")).Close()
		answers(t, listenUnix(t, path), path)
		if _, err := os.Lstat(tmp); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", tmp, err)
		}
	})
}

func TestListenUnixRefusesTheLiving(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	l := listenUnix(t, path)
	_, err := ListenUnix(path, slog.Default())
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "somebody listens on "+path+" already") {
		t.Errorf("error %v", err)
	}
	if conn, err := l.Accept(); err == nil { // the look at it
		_ = conn.Close()
	}
	answers(t, l, path)
}

// One that accepts nothing for now, and whose queue is full, lives.
func TestListenUnixRefusesTheBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	fd := socket(t, unix.SOCK_STREAM, path)
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for {
		conn, err := net.DialTimeout("unix", path, 50*time.Millisecond)
		if err != nil {
			break
		}
		defer conn.Close()
	}
	if _, err := ListenUnix(path, slog.Default()); !errors.Is(err, ErrInUse) {
		t.Errorf("error %v", err)
	}
}

func TestListenUnixRefusesAnotherKindOfSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	socket(t, unix.SOCK_DGRAM, path)
	if _, err := ListenUnix(path, slog.Default()); !errors.Is(err, ErrInUse) {
		t.Errorf("error %v", err)
	}
}

func TestListenUnixRefusesWhatIsNoSocket(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, dir, link} {
		_, err := ListenUnix(path, slog.Default())
		if err == nil || errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "something that is no socket is there") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

// The temporary name is longer than the path, and the path may be as long as
// the kernel allows.
func TestListenUnixLongPaths(t *testing.T) {
	// t.TempDir's is too long, and the shorter the directory, the longer the name.
	dir := filepath.Join(os.TempDir(), strconv.FormatInt(int64(os.Getpid()), 36))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fill := func(n int) string { return filepath.Join(dir, strings.Repeat("x", n-len(dir)-1)) }
	for _, n := range []int{50, 55, 60, maxSocketPath - 1, maxSocketPath} {
		answers(t, listenUnix(t, fill(n)), fill(n))
	}
	if _, err := ListenUnix(fill(maxSocketPath+1), slog.Default()); err == nil || !strings.Contains(err.Error(), "choose a shorter one") {
		t.Errorf("error %v", err)
	}
}

// Of many that begin at once one listens, and the others are told.
func TestListenUnixOneOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	killed(t, "listen", path)
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		winners []net.Listener
	)
	for range 8 {
		wg.Go(func() {
			l, err := ListenUnix(path, slog.Default())
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				winners = append(winners, l)
			} else if !errors.Is(err, ErrInUse) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, l := range winners {
		defer l.Close()
	}
	if len(winners) != 1 {
		t.Fatalf("%d listen", len(winners))
	}
}

// Who holds the lock delays, and is named.
func TestListenUnixDoesNotWaitForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	unlock, err := lockBriefly(t.Context(), beside(path, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := ListenUnix(path, slog.Default()); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "keeps "+beside(path, "lock")+" locked") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took < lockPatience || took > 2*lockPatience {
			t.Errorf("after %s", took)
		}
	})
}

func TestListenTCPNamesTheAddress(t *testing.T) {
	l := listenTCP(t)
	if _, err := ListenTCP(l.Addr().String(), slog.Default()); err == nil || !strings.Contains(err.Error(), "listen on "+l.Addr().String()) || !strings.Contains(err.Error(), "ss -ltnp") {
		t.Errorf("error %v", err)
	}
}

func listenUnix(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := ListenUnix(path, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// answers checks that who dials path reaches l.
func answers(t *testing.T, l net.Listener, path string) {
	t.Helper()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
}

// socket binds one that Go's net would not make.
func socket(t *testing.T, kind int, path string) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// Anybody may read the directory, and so lock it; that keeps nobody from it.
func TestListenUnixInADirectoryThatAnotherLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := flock(d); err != nil {
		t.Fatal(err)
	}
	answers(t, listenUnix(t, path), path)
}

// The lock of a socket is for its owner alone, and goes when it is let go of: also one
// that a process left which was killed.
func TestTheLockOfASocketGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	unlock, err := lockBriefly(t.Context(), beside(path, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(beside(path, "lock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the lock is open to others: %v, %v", info, err)
	}
	unlock()
	killed(t, "listen", path)
	l := listenUnix(t, path)
	none := func(when string) {
		t.Helper()
		if _, err := os.Stat(beside(path, "lock")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", when, err)
		}
	}
	none("it is open")
	if _, err := ListenUnix(path, slog.Default()); !errors.Is(err, ErrInUse) {
		t.Errorf("error %v", err)
	}
	none("another is refused")
	_ = l.Close()
	if err := RemoveUnix(path); err != nil {
		t.Error(err)
	}
	none("it is removed")
}

// Who waits for a lock does not get it beside one who came later.
func TestALockThatGoesIsNobodys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside, most atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				unlock, err := lockBriefly(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				runtime.Gosched()
				inside.Add(-1)
				unlock()
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d had it at once", most.Load())
	}
}

// A start that failed takes its sockets with it, and nobody else's.
func TestRemoveUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := ListenUnix(path, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := RemoveUnix(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("what somebody listens on was removed: %v", err)
	}
	_ = l.Close()
	for range 2 { // that it is gone is no error
		if err := RemoveUnix(path); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveUnix(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a file that is no socket was removed: %v", err)
	}
}

func TestCheckTCP(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "127.0.0.1:8080": true, ":8080": true, "[::1]:0": true, "localhost:http": true,
		"8080": false, "127.0.0.1": false, "::1:8080:": false, "127.0.0.1:99999": false, "127.0.0.1:web-server": false,
	} {
		if err := CheckTCP("metrics-bind-address", address); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "--metrics-bind-address") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
