package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports that the kernel gives nobody by itself: below net.ipv4.ip_local_port_range as it
// is everywhere, and away from NodePorts.
const (
	firstPort = 20000
	ports     = 10000
)

// FreePort is a port of 127.0.0.1 at which nobody listens, by TCP nor by UDP, and that no
// connection or listener of somebody else is given while the test uses it now and then.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := firstPort + rand.IntN(ports)
		at := fmt.Sprintf("127.0.0.1:%d", port)
		tcp, err := net.Listen("tcp", at)
		if err != nil {
			continue
		}
		udp, err := net.ListenPacket("udp", at)
		_ = tcp.Close()
		if err == nil {
			_ = udp.Close()
			return port
		}
	}
	t.Fatal("no port is free for both UDP and TCP")
	return 0
}
