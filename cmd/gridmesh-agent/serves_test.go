package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node"
)

// An Envoy that nobody could ask is not absent; one that gives no answer is.
func TestWhetherEnvoyServes(t *testing.T) {
	at, listen := portsInARow(t)
	lo, err := netlink.LinkByName("lo") // of all threads: a client dials on any of them
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return at.envoyServes(ctx)
	}
	if err := ask(time.Minute); !errors.Is(err, capture.ErrNotListening) {
		t.Errorf("nobody listens: %v", err)
	}
	free := fullDescriptors(t)
	err = ask(time.Minute)
	free()
	if !errors.Is(err, node.ErrNotKnown) || !errors.Is(err, unix.EMFILE) {
		t.Errorf("without a descriptor: %v", err)
	}
	listen(at.capture.Ports.Keep(), true)
	listen(at.capture.Ports.Plain(), true)
	if err := ask(time.Minute); err == nil || errors.Is(err, node.ErrNotKnown) {
		t.Errorf("its health does not listen: %v", err)
	}
	health := listen(at.capture.Ports.Health(), false)
	if err := ask(100 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, node.ErrNotKnown) {
		t.Errorf("it hangs: %v", err)
	}
	server := &httptest.Server{Listener: health, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}}
	server.Start()
	defer server.Close()
	if err := ask(time.Minute); err != nil {
		t.Errorf("it serves: %v", err)
	}
}

// Who is not Envoy is not believed, whatever he answers at its ports: he is not even asked.
// Nor is who listens only once Envoy was asked.
func TestAStrangerDoesNotServe(t *testing.T) {
	at, listen := portsInARow(t)
	asked := 0
	answer := func(l net.Listener, more func()) *httptest.Server {
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++; more() })}}
		s.Start()
		return s
	}
	three := []uint16{at.capture.Ports.Keep(), at.capture.Ports.Plain(), at.capture.Ports.Health()}
	held := make([]net.Listener, 0, len(three))
	if err := <-testkit.AsStranger(t, func() error {
		for _, port := range three {
			held = append(held, listen(port, false))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	squatter := answer(held[2], func() {})
	err := at.envoyServes(t.Context())
	if !errors.Is(err, capture.ErrStranger) || errors.Is(err, node.ErrNotKnown) || asked != 0 {
		t.Errorf("a stranger was asked %d times: %v", asked, err)
	}
	if want := fmt.Sprintf("user %d listens on port %d", testkit.Stranger, three[0]); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: want %q", err, want)
	}
	squatter.Close()
	held[0].Close()
	held[1].Close()

	listen(three[0], true)
	listen(three[1], true)
	health := listen(three[2], false)
	next := answer(health, func() {
		health.Close()
		listen(three[2], false)
	})
	defer next.Close()
	if err := at.envoyServes(t.Context()); err == nil || asked != 1 {
		t.Errorf("another one listens after the answer; %d asked", asked)
	}
}

// portsInARow are those of an agent, and how to listen at one, as Envoy does for what is captured or not, where nobody listens yet.
func portsInARow(t *testing.T) (*config, func(port uint16, captured bool) net.Listener) {
	t.Helper()
	c := defaults()
	listen := func(port uint16, captured bool) (net.Listener, error) {
		lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			if captured {
				_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1) })
			}
			return err
		}}
		return lc.Listen(t.Context(), "tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
	}
	for base := uint16(20000); base < 30000; base += 16 {
		c.capture.Ports.Base = base
		taken := false
		for port := base; port < base+16 && !taken; port++ {
			l, err := listen(port, false)
			if taken = err != nil; !taken {
				l.Close()
			}
		}
		if !taken {
			return c, func(port uint16, captured bool) net.Listener {
				l, err := listen(port, captured)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				return l
			}
		}
	}
	t.Fatal("no ports in a row are free")
	return nil, nil
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
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next.Fd()), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}
}
