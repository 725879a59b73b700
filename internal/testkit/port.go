package testkit

import (
	"net"
	"testing"
)

// FreePort is a port of 127.0.0.1 at which nobody listens, by TCP nor by UDP. One that is
// free for one of them may be a connection's of the other.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		_ = tcp.Close()
		if err == nil {
			_ = udp.Close()
			return tcp.Addr().(*net.TCPAddr).Port
		}
	}
	t.Fatal("no port is free for both UDP and TCP")
	return 0
}
