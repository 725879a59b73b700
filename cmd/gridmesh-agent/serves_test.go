package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

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
	if err := ask(time.Minute); !errors.Is(err, errNotListening) {
		t.Errorf("nobody listens: %v", err)
	}
	free := fullDescriptors(t)
	err = ask(time.Minute)
	free()
	if !errors.Is(err, node.ErrNotKnown) || !errors.Is(err, unix.EMFILE) {
		t.Errorf("without a descriptor: %v", err)
	}
	listen(at.capture.Ports.Keep())
	listen(at.capture.Ports.Plain())
	if err := ask(time.Minute); err == nil || errors.Is(err, node.ErrNotKnown) {
		t.Errorf("its health does not listen: %v", err)
	}
	health := listen(at.capture.Ports.Health())
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

// portsInARow are those of an agent, and how to listen at one, where nobody listens yet.
func portsInARow(t *testing.T) (*config, func(port uint16) net.Listener) {
	t.Helper()
	c := defaults()
	listen := func(port uint16) (net.Listener, error) {
		return new(net.ListenConfig).Listen(t.Context(), "tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
	}
	for base := uint16(20000); base < 30000; base += 16 {
		c.capture.Ports.Base = base
		taken := false
		for port := base; port < base+16 && !taken; port++ {
			l, err := listen(port)
			if taken = err != nil; !taken {
				l.Close()
			}
		}
		if !taken {
			return c, func(port uint16) net.Listener {
				l, err := listen(port)
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
