package testkit

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// Free is an address of this host on which nobody listens now, to listen on.
func Free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal("find a free address:", err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Nobody is an address of this host that refuses connections for as long as the
// test runs: its port is taken, and nobody listens.
func Nobody(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal("take an address:", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal("take an address:", err)
	}
	at, err := unix.Getsockname(fd)
	own, ok := at.(*unix.SockaddrInet4)
	if err != nil || !ok {
		t.Fatal("take an address:", at, err)
	}
	return netip.AddrPortFrom(netip.AddrFrom4(own.Addr), uint16(own.Port)).String()
}
