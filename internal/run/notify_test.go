package run

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// supervisor is what a process tells its supervisor, from a socket as systemd's.
func supervisor(t *testing.T) (heard func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func() string {
		t.Helper()
		buf := make([]byte, 100)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

// supervised runs Supervised until stop, which wants that no error came of it.
func supervised(t *testing.T, log *slog.Logger, alive func() bool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Supervised(ctx, log, alive) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func wantHeard(t *testing.T, heard func() string, want string) {
	t.Helper()
	if got := heard(); got != want {
		t.Errorf("systemd heard %q, want %q", got, want)
	}
}

func TestSupervisedWithoutWatchdog(t *testing.T) {
	heard := supervisor(t)
	t.Setenv("WATCHDOG_USEC", "")
	stop := supervised(t, slog.New(slog.DiscardHandler), func() bool { t.Error("nobody asks whether it is alive"); return true })
	wantHeard(t, heard, "READY=1")
	stop()
	wantHeard(t, heard, "STOPPING=1")
}

// A process that hangs is silent, and one that works again is not.
func TestSupervisedIsSilentWhileItHangs(t *testing.T) {
	heard := supervisor(t)
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", "3000") // it is asked every millisecond
	var hangs atomic.Bool
	var asked atomic.Int64
	stop := supervised(t, slog.New(slog.DiscardHandler), func() bool { asked.Add(1); return !hangs.Load() })
	wantHeard(t, heard, "READY=1")
	wantHeard(t, heard, "WATCHDOG=1")
	wantHeard(t, heard, "WATCHDOG=1")
	hangs.Store(true)
	for from := asked.Load(); asked.Load() < from+20; {
		time.Sleep(time.Millisecond)
	}
	stop()
	told := 0
	for heard() == "WATCHDOG=1" { // those from before it hung; then the end
		told++
	}
	if was := asked.Load(); told > int(was)-15 {
		t.Errorf("it told %d times that it is alive, asked %d times; it hung for 20 of them", told, was)
	}
}

// Of another process than this it is not the watchdog.
func TestSupervisedByOthers(t *testing.T) {
	heard := supervisor(t)
	t.Setenv("WATCHDOG_USEC", "1000")
	t.Setenv("WATCHDOG_PID", "1")
	stop := supervised(t, slog.New(slog.DiscardHandler), func() bool { t.Error("it is somebody else's watchdog"); return true })
	wantHeard(t, heard, "READY=1")
	stop()
	wantHeard(t, heard, "STOPPING=1")
}

// What systemd wants and cannot be understood is said, and ends nobody: the rest of it
// is told.
func TestSupervisedByWhatCannotBeRead(t *testing.T) {
	var said strings.Builder
	heard := supervisor(t)
	t.Setenv("WATCHDOG_USEC", "soon")
	stop := supervised(t, slog.New(slog.NewTextHandler(&said, nil)), func() bool { t.Error("nobody knows how often to ask"); return true })
	wantHeard(t, heard, "READY=1")
	stop()
	wantHeard(t, heard, "STOPPING=1")
	if !strings.Contains(said.String(), "WATCHDOG_USEC") {
		t.Errorf("said: %s", said.String())
	}
}

// Where nobody supervises, or nobody hears, the work goes on.
func TestSupervisedByNobody(t *testing.T) {
	var said strings.Builder
	t.Setenv("WATCHDOG_USEC", "")
	t.Setenv("NOTIFY_SOCKET", "")
	supervised(t, slog.New(slog.NewTextHandler(&said, nil)), nil)()
	if said.Len() > 0 {
		t.Errorf("without systemd it says %s", said.String())
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "absent"))
	supervised(t, slog.New(slog.NewTextHandler(&said, nil)), nil)()
	if !strings.Contains(said.String(), "READY=1") {
		t.Errorf("nothing is said of a socket that is not there: %s", said.String())
	}
}
