package main

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The agent tells systemd that it is ready once the guard is in force, that it is
// alive, and that it stops.
func TestSystemdIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	path := filepath.Join(p.dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	told := func() string {
		t.Helper()
		buf := make([]byte, 100)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	cmd := p.agent("a", "--manifests", p.manifests())
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=300000") // of whatever process
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v:\n%s", err, out.String())
		}
	}()
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM) }()
	if got := told(); got != "READY=1" {
		t.Errorf("first it says %q", got)
	}
	if left := strings.Join(p.left(), ", "); !strings.Contains(left, "table gridmesh") {
		t.Errorf("it is ready with %s", left)
	}
	for range 3 {
		if got := told(); got != "WATCHDOG=1" {
			t.Errorf("then it says %q", got)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	for {
		switch got := told(); got {
		case "WATCHDOG=1":
			continue
		case "STOPPING=1":
		default:
			t.Errorf("at last it says %q", got)
		}
		return
	}
}
