package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// Whom a new connection sends away.
func TestSurplus(t *testing.T) {
	times := func(n int, peer string) []string { return strings.Split(strings.Repeat(peer+" ", n-1)+peer, " ") }
	all := func(lists ...[]string) (open []string) {
		for _, list := range lists {
			open = append(open, list...)
		}
		return open
	}
	var strangers []string
	for i := range mostConns {
		strangers = append(strangers, fmt.Sprint("s", i))
	}
	for name, tc := range map[string]struct {
		open []string
		peer string
		want int
	}{
		"nobody is there":              {nil, "a", -1},
		"one more of a few":            {times(mostOfPeer-1, "a"), "a", -1},
		"its own oldest":               {all([]string{"b"}, times(mostOfPeer, "a")), "a", 1},
		"another one's place":          {times(mostOfPeer, "a"), "b", -1},
		"the oldest of who has most":   {all(strangers[:mostConns-2], []string{"a", "a"}), "b", mostConns - 2},
		"the oldest where all have as": {strangers, "b", 0},
		"one more of many unseen":      {times(mostConns-1, unseen), unseen, -1},
		"the newest of the unseen":     {times(mostConns, unseen), unseen, mostConns - 1},
		"the newest, for one seen":     {times(mostConns, unseen), "b", mostConns - 1},
		"the oldest of more than them": {all(times(mostConns-mostOfPeer, unseen)[:9], times(mostOfPeer-1, "a"), strangers[:mostConns-mostOfPeer-8]), unseen, 9},
	} {
		if got := (Limits{mostConns, mostOfPeer}).surplus(tc.open, tc.peer); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// Clients that never end their headers take neither memory without end nor the
// place of who asks from elsewhere.
func TestSlowClients(t *testing.T) {
	for name, addresses := range map[string]int{"of one address": 1, "of many addresses": 100} {
		address, stop := serving(t, func(ctx context.Context, l net.Listener) error {
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })} // which ends none by itself
			defer context.AfterFunc(ctx, func() { _ = s.Close() })()
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		var slow []net.Conn
		for i := range 300 {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%addresses))}}
			conn, err := d.DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 4<<10))
			slow = append(slow, conn)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
		if body := get(t, client, "http://"+address+"/", 200); body != "hello" {
			t.Errorf("%s: answer %q", name, body)
		}
		want := min(mostConns-1, addresses*mostOfPeer) // who asked for health had a place
		if left := open(t, slow, want); left != want {
			t.Errorf("%s: %d connections are open, want %d", name, left, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// open counts the connections that the other end has not closed, once there are
// no more of them than are wanted.
func open(t *testing.T, conns []net.Conn, want int) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		n := 0
		for _, c := range conns {
			if isOpen(t, c) {
				n++
			}
		}
		if n <= want || time.Now().After(deadline) {
			return n
		}
	}
}

func isOpen(t *testing.T, c net.Conn) (is bool) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		is = errors.Is(err, unix.EAGAIN)
	}); err != nil {
		t.Fatal(err)
	}
	return is
}

// Processes of this machine do not take each other's place either.
func TestSlowProcesses(t *testing.T) {
	l := listenUnix(t, filepath.Join(t.TempDir(), "s.sock"))
	var dialled []net.Conn
	for range mostOfPeer + 1 {
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		if got, want := peerOf(accepted.(*boundConn).Conn), fmt.Sprint("process ", os.Getpid()); got != want {
			t.Errorf("the peer is %q, want %q", got, want)
		}
		dialled = append(dialled, conn)
	}
	if left := open(t, dialled, mostOfPeer); left != mostOfPeer {
		t.Errorf("%d connections are open, want %d", left, mostOfPeer)
	}
}

// Who is in another container has a number there that is none here: all of them
// would be one.
func TestAProcessThatIsNotSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	cmd := child(t, "peer", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skipf("NOT TESTED: A PROCESS IN ANOTHER CONTAINER. This machine allows no user and PID namespaces (%v)", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil { // it is up
		t.Fatal(err, cmd.Wait(), stderr.String())
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := io.ReadAll(out)
	if ended := cmd.Wait(); err != nil || string(got) != strconv.Quote(unseen)+"\n" {
		t.Errorf("the peer is %s, %v, %v: %s", got, err, ended, stderr.String())
	}
}

func TestPeers(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"IPv4":                        {"10.0.0.7:80", "10.0.0.9:1", "10.0.0.7"},
		"IPv4 as IPv6":                {"[::ffff:10.0.0.7]:80", "[::ffff:10.0.0.9]:1", "10.0.0.7"},
		"IPv6, of the same network":   {"[fd00:1:2:3:4::5]:80", "[fd00:1:2:3::9]:1", "fd00:1:2:3::/64"},
		"IPv6, of this machine":       {"[fd00:1:2:3::9]:80", "[fd00:1:2:3::9]:1", "fd00:1:2:3::9"},
		"link-local":                  {"[fe80::1%lo]:80", "[fe80::2%lo]:1", "fe80::/64"},
		"link-local, of this machine": {"[fe80::2%lo]:80", "[fe80::2%lo]:1", "fe80::2%lo"},
		"loopback":                    {"[::1]:80", "[::1]:1", "::1"},
	} {
		var ends [2]net.Addr
		for i, addr := range []string{tc.from, tc.to} {
			at, err := net.ResolveTCPAddr("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			ends[i] = at
		}
		if got := peerOf(&from{at: ends[0], to: ends[1]}); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

type from struct {
	net.Conn
	at, to net.Addr
}

func (f *from) RemoteAddr() net.Addr { return f.at }
func (f *from) LocalAddr() net.Addr  { return f.to }

// poor is a listener that accepts nothing for a lack, and then is closed.
type poor struct {
	net.Listener
	err   error
	asked atomic.Int32
}

func (p *poor) Accept() (net.Conn, error) {
	if p.asked.Add(1) > 10 {
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", p.err)}
}

func (p *poor) Close() error { return nil }

// A lack of descriptors or memory is waited out, and no other error.
func TestLacksAreWaitedOut(t *testing.T) {
	for _, lack := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED, unix.EINTR} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var log bytes.Buffer
			if _, err := Bound(&poor{err: lack}, slog.New(slog.NewTextHandler(&log, nil))).Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v: %v", lack, err)
			}
			if n := strings.Count(log.String(), "connections wait"); n != 1 {
				t.Errorf("%v: said %d times: %s", lack, n, &log)
			}
			// 5 ms, doubled up to a second
			if took := time.Since(began); took != 3275*time.Millisecond {
				t.Errorf("%v: gave up after %s", lack, took)
			}
		})
	}
	p := &poor{err: unix.EINVAL}
	if _, err := Bound(p, slog.Default()).Accept(); !errors.Is(err, unix.EINVAL) || p.asked.Load() != 1 {
		t.Errorf("error %v after %d attempts", err, p.asked.Load())
	}
}

// A listener that waits is closed at once.
func TestLacksEndWithTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Bound(&poor{err: unix.EMFILE}, slog.Default())
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Millisecond)
		defer cancel()
		defer context.AfterFunc(ctx, func() { _ = l.Close() })()
		began := time.Now()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || time.Since(began) != 7*time.Millisecond {
			t.Errorf("error %v after %s", err, time.Since(began))
		}
	})
}
