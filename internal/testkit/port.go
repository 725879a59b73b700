package testkit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
)

// Ports that the kernel gives nobody by itself: below net.ipv4.ip_local_port_range as it
// is everywhere, and away from NodePorts.
const (
	firstPort = 20000
	ports     = 10000
)

// FreePort is one of FreePorts.
func FreePort(t testing.TB) int {
	t.Helper()
	return int(FreePorts(t, 1)[0])
}

// FreePorts are n ports of this machine at which nobody listens, by TCP nor by UDP, and that
// no connection or listener of somebody else is given while the test uses them now and then.
func FreePorts(t testing.TB, n int) []uint16 {
	t.Helper()
	found := map[uint16]bool{}
	for range 100 * n {
		if port := uint16(firstPort + rand.IntN(ports)); free(port) {
			found[port] = true
		}
		if len(found) == n {
			return slices.Collect(maps.Keys(found))
		}
	}
	t.Fatalf("%d of %d ports are free for both UDP and TCP", len(found), n)
	return nil
}

// free reports whether nobody listens at a port of any address.
func free(port uint16) bool {
	at := fmt.Sprintf(":%d", port)
	tcp, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", at)
	if err != nil {
		return false
	}
	return udp.Close() == nil
}
