package run

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errBroken = errors.New("broken")

func serves(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func after(d time.Duration, err error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// Every way in which a group ends. The test's context ends after a minute.
func TestGroupEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		add  func(g *Group)
		want string // "" for nil
		at   time.Duration
	}{
		{"from outside", func(g *Group) { g.Add("a", serves) }, "", time.Minute},
		{"by an error", func(g *Group) { g.Add("a", serves); g.Add("b", after(time.Second, errBroken)) }, "b: broken", time.Second},
		{"by the first error", func(g *Group) {
			g.Add("a", func(ctx context.Context) error { <-ctx.Done(); return errors.New("later") })
			g.Add("b", after(time.Second, errBroken))
		}, "b: broken", time.Second},
		{"by a member that just ends", func(g *Group) { g.Add("a", serves); g.Add("b", after(time.Second, nil)) }, "b: " + errEnded.Error(), time.Second},
		{"by a member whose own context ended", func(g *Group) { g.Add("a", after(time.Second, context.Canceled)) }, "a: context canceled", time.Second},
		{"not by a task that finishes", func(g *Group) { g.Add("a", serves); g.AddTask("b", after(time.Second, nil)) }, "", time.Minute},
		{"by a task that fails", func(g *Group) { g.Add("a", serves); g.AddTask("b", after(time.Second, errBroken)) }, "b: broken", time.Second},
		{"when all tasks finished", func(g *Group) { g.AddTask("a", after(time.Second, nil)); g.AddTask("b", after(2*time.Second, nil)) }, "", 2 * time.Second},
		{"when it is empty", func(*Group) {}, "", 0},
		{"only when the slowest has ended", func(g *Group) {
			g.Add("a", after(time.Second, errBroken))
			g.Add("b", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return nil })
		}, "a: broken", 2 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var g Group
				tc.add(&g)
				began := time.Now()
				err := g.Run(ctx)
				if took := time.Since(began); took != tc.at {
					t.Errorf("ended after %s, want %s", took, tc.at)
				}
				if got := text(err); got != tc.want {
					t.Errorf("error %q, want %q", got, tc.want)
				}
				if tc.want == "b: broken" && !errors.Is(err, errBroken) {
					t.Errorf("%v does not wrap its cause", err)
				}
			})
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestGroupRunsOnce(t *testing.T) {
	var g Group
	if err := g.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Run(t.Context()); !errors.Is(err, errRan) {
		t.Errorf("error %v, want %v", err, errRan)
	}
}

// Even what never looks at its context ends with its listener.
func TestGroupClosesListeners(t *testing.T) {
	l := listenTCP(t)
	var g Group
	g.AddListener("accept", l, func(_ context.Context, l net.Listener) error {
		for {
			conn, err := l.Accept()
			if err != nil {
				return err
			}
			_ = conn.Close()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	g.Add("client", func(ctx context.Context) error {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_, _ = conn.Read(make([]byte, 1)) // until it is closed
			_ = conn.Close()
		}
		cancel()
		<-ctx.Done()
		return err
	})
	if err := g.Run(ctx); err != nil {
		t.Errorf("error %v", err)
	}
	if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the listener is still there")
	}
	if err := g.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func TestGroupThatNeverRanClosesListeners(t *testing.T) {
	l := listenTCP(t)
	var g Group
	g.AddListener("never", l, func(context.Context, net.Listener) error { t.Error("served"); return nil })
	if err := errors.Join(g.Close(), g.Close()); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v, want a closed listener", err)
	}
}

func TestGroupDoesNotSwallowPanics(t *testing.T) {
	out, err := child(t, "panic", "").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: this is why") {
		t.Errorf("the process ended with %v:\n%s", err, out)
	}
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := ListenTCP("127.0.0.1:0", slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
