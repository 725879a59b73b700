package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func addr(last int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 0, 8, byte(last)})
}

func listen(t *testing.T, at netip.Addr, port uint16) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, port).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// accept takes connections, until the listener is closed.
func accept(l net.Listener, do func(net.Conn)) {
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			do(conn)
		}
	}()
}

// Who spoke from an address that is not its own is looked for at both: seen at one it is well, and
// seen at neither it is not known, for it may be behind a router, which has no kubelet.
func TestANodeSpokeFromElsewhere(t *testing.T) {
	cfg := Default()
	l := listen(t, addr(40), 0)
	accept(l, func(conn net.Conn) { _ = conn.Close() })
	cfg.Ping = Plugin{On: true, Port: netip.MustParseAddrPort(l.Addr().String()).Port(), Attempts: 1, Timeout: time.Second, Weight: 1}
	c := checker(t, cfg, nil)
	there, gone := addr(40), addr(41)
	got := c.Round(t.Context(), []Target{
		{Node: "at its own", Addr: there, Spoke: gone},
		{Node: "where it spoke", Addr: gone, Spoke: there},
		{Node: "of no own", Spoke: there},
		{Node: "at neither", Addr: gone, Spoke: addr(42)},
		{Node: "dead", Addr: gone},
	})
	if want := map[string]bool{"at its own": true, "where it spoke": true, "of no own": true, "dead": false}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, d := range c.Details() {
		if d.Node == "at neither" && (!d.Unknown || !strings.Contains(d.Err, "neither there nor at its own address")) {
			t.Errorf("%+v", d)
		}
	}
}

// silent has an address at which nobody answers: its queue of connections is full, and the
// kernel drops what would be more.
func silent(t *testing.T, at netip.Addr, port uint16) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: at.As4()}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(at, port).String(), 200*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the queue never is full")
}

func checker(t *testing.T, cfg Config, log io.Writer) *Checker {
	t.Helper()
	if log == nil {
		log = io.Discard
	}
	c, err := New(cfg, slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pinging is a Config with ping alone.
func pinging(port uint16) Config {
	cfg := Default()
	cfg.Ping.On, cfg.Ping.Port = true, port
	cfg.Within = 2 * time.Second
	return cfg
}

func TestPing(t *testing.T) {
	port := uint16(testkit.FreePort(t))
	accept(listen(t, addr(1), port), func(c net.Conn) { _ = c.Close() })
	silent(t, addr(3), port)
	c := checker(t, pinging(port), nil)
	began := time.Now()
	got := c.Round(t.Context(), []Target{
		{Node: "well", Addr: addr(1)}, {Node: "refuses", Addr: addr(2)}, {Node: "silent", Addr: addr(3)}, {Node: "nowhere", Addr: netip.Addr{}},
	})
	if want := map[string]bool{"well": true, "refuses": false, "silent": false}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if took := time.Since(began); took < 1900*time.Millisecond || took > 20*time.Second {
		t.Errorf("all at once they took %s, and the silent one alone takes 2s", took)
	}
	want := map[string]string{"well": "", "refuses": "nobody takes connections at that port", "silent": "timeout", "nowhere": "no address"}
	for _, d := range c.Details() {
		if d.Probe != "ping" || !strings.Contains(d.Err, want[d.Node]) || d.Well != (d.Node == "well") || d.Unknown != (d.Node == "nowhere") {
			t.Errorf("%+v", d)
		}
		delete(want, d.Node)
	}
	if len(want) > 0 {
		t.Errorf("nothing is told of %v", want)
	}
}

// said is a probe that finds what a test says.
type said func(ctx context.Context, t Target) (string, error)

func (s said) Look(ctx context.Context, t Target) (string, error) { return s(ctx, t) }

// saying is a checker of such probes, each with a weight and three attempts.
func saying(t *testing.T, cfg Config, weight float64, probes ...said) *Checker {
	c := checker(t, cfg, nil)
	c.probes = nil
	for i, p := range probes {
		c.probes = append(c.probes, weighted{p, fmt.Sprint("p", i), Plugin{true, time.Second, 3, weight, 1}})
	}
	return c
}

var errSick = errors.New("it is sick")

func TestScore(t *testing.T) {
	well := said(func(context.Context, Target) (string, error) { return "", nil })
	not := said(func(context.Context, Target) (string, error) { return "", errSick })
	unknown := said(func(context.Context, Target) (string, error) { return "", unix.EMFILE })
	for name, tc := range map[string]struct {
		probes []said
		want   map[string]bool
	}{
		"all":                       {[]said{well, well}, map[string]bool{"n": true}},
		"half":                      {[]said{well, not}, map[string]bool{"n": false}},
		"none":                      {[]said{not, not}, map[string]bool{"n": false}},
		"half, of the rest nothing": {[]said{well, unknown}, map[string]bool{}},
		"nothing":                   {[]said{unknown, unknown}, map[string]bool{}},
		"it cannot be enough":       {[]said{not, unknown}, map[string]bool{"n": false}},
		"enough without the rest":   {[]said{well, well, unknown}, map[string]bool{"n": true}},
		"tenths":                    {slices.Repeat([]said{well}, 10), map[string]bool{"n": true}}, // together a little less than one
	} {
		weight := 0.5
		if name == "tenths" {
			weight = 0.1
		}
		if got := saying(t, Default(), weight, tc.probes...).Round(t.Context(), []Target{{Node: "n", Addr: addr(1)}}); !maps.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// A probe is lost now and then: it is tried as often as its flag says, and no more.
func TestAttempts(t *testing.T) {
	for lost, want := range map[int32]bool{2: true, 3: false} {
		var n atomic.Int32
		c := saying(t, Default(), 1, func(context.Context, Target) (string, error) {
			if n.Add(1) <= lost {
				return "", errSick
			}
			return "", nil
		})
		if got := c.Round(t.Context(), []Target{{Node: "n", Addr: addr(1)}}); got["n"] != want || n.Load() != 3 {
			t.Errorf("%d lost: %v after %d attempts", lost, got, n.Load())
		}
	}
}

// What is told is why the last attempt failed, and not that there was no time for another.
func TestTheReasonIsTold(t *testing.T) {
	cfg := Default()
	cfg.Within = 300 * time.Millisecond
	c := saying(t, cfg, 1, func(ctx context.Context, _ Target) (string, error) { return "", errors.Join(ctx.Err(), errSick) })
	c.Round(t.Context(), []Target{{Node: "n", Addr: addr(1)}})
	if d := c.Details(); d[0].Err != errSick.Error() {
		t.Errorf("%+v", d)
	}
}

// All are checked at once, but for as many as there is room for; and there is one that never ends.
func TestParallel(t *testing.T) {
	cfg := Default()
	cfg.Parallel, cfg.Within = 7, 500*time.Millisecond
	var now, most atomic.Int32
	c := saying(t, cfg, 1, func(ctx context.Context, n Target) (string, error) {
		defer now.Add(-1)
		most.Store(max(most.Load(), now.Add(1)))
		if n.Node == "0" {
			<-ctx.Done()
			return "", ctx.Err()
		}
		time.Sleep(time.Millisecond)
		return "", nil
	})
	var targets []Target
	for i := range 60 {
		targets = append(targets, Target{Node: fmt.Sprint(i), Addr: addr(i)})
	}
	got := c.Round(t.Context(), targets)
	if len(got) != 60 || got["0"] || !got["1"] || !got["59"] {
		t.Errorf("%d are known: %v", len(got), got)
	}
	if most.Load() > 7 || most.Load() < 2 {
		t.Errorf("%d at once, and there is room for 7", most.Load())
	}
}

// Of what was cancelled nothing is concluded: not that who was asked is dead.
func TestCancelled(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(300*time.Millisecond, cancel)
			return ctx, cancel
		},
		"a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 300*time.Millisecond)
		},
		"before": func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 0) },
		"while there is no other attempt": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 300*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			port := uint16(testkit.FreePort(t))
			accept(listen(t, addr(1), port), func(c net.Conn) { _ = c.Close() })
			silent(t, addr(2), port)
			cfg := pinging(port)
			if name == "while there is no other attempt" {
				cfg.Ping.Attempts = 1
			}
			c := checker(t, cfg, nil)
			ctx, cancel := end(t.Context())
			defer cancel()
			began := time.Now()
			got := c.Round(ctx, []Target{{Node: "well", Addr: addr(1)}, {Node: "silent", Addr: addr(2)}})
			want := map[string]bool{"well": true}
			if name == "before" {
				want = map[string]bool{}
			}
			if !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if took := time.Since(began); took > 1500*time.Millisecond {
				t.Errorf("it ended %s after it began", took)
			}
		})
	}
}

// What keeps this node from looking says nothing of the other one; that nobody answers does.
func TestConclude(t *testing.T) {
	for err, want := range map[error]verdict{
		unix.EMFILE: isUnknown, unix.ENETUNREACH: isUnknown, unix.EADDRNOTAVAIL: isUnknown, unix.EPERM: isUnknown,
		unix.ECONNREFUSED: isNot, unix.EHOSTUNREACH: isNot, unix.ETIMEDOUT: isNot, context.DeadlineExceeded: isNot, io.EOF: isNot,
	} {
		if got := conclude(&net.OpError{Op: "dial", Err: err}); got.verdict != want {
			t.Errorf("%v: %+v, want %d", err, got, want)
		}
	}
}

// SuperEdge's own manifest has three attempts of 5 s, more than a round has.
func TestAttemptsFit(t *testing.T) {
	cfg := Default()
	if err := cfg.Ping.Set("timeout=5,retrytime=3"); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	c := checker(t, cfg, &log)
	if got := c.probes[0].Timeout; got != cfg.Within/3 {
		t.Errorf("an attempt takes %s", got)
	}
	if !strings.Contains(log.String(), "--pingplugin") || !strings.Contains(log.String(), "3 attempts of 1.333333333s each, in 4s") {
		t.Error(log.String())
	}
}

// What was found of nodes that are not looked at any more is forgotten.
func TestDetailsAreForgotten(t *testing.T) {
	c := saying(t, Default(), 1, func(context.Context, Target) (string, error) { return "a note", nil })
	c.Round(t.Context(), []Target{{Node: "a", Addr: addr(1)}, {Node: "b", Addr: addr(2)}})
	if d := c.Details(); len(d) != 2 || d[0].Node != "a" || d[0].Err != "a note" || !d[0].Well {
		t.Fatalf("%+v", d)
	}
	c.forget(time.Now().Add(kept + time.Second))
	if d := c.Details(); len(d) != 0 {
		t.Errorf("%+v", d)
	}
}

func TestWithoutAPluginItIsPing(t *testing.T) {
	if c := checker(t, Default(), nil); len(c.probes) != 1 || c.probes[0].name != "ping" || c.probes[0].Port != 10250 {
		t.Errorf("%+v", c.probes)
	}
	cfg := Default()
	cfg.ScoreLine = 200
	if _, err := New(cfg, slog.Default(), prometheus.NewRegistry()); err == nil {
		t.Error("a line that ping cannot reach is taken")
	}
}
