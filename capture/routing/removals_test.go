package routing

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// Each route is said once, and of very many the first, and that there are more.
func TestRemovalsAreSaidOnce(t *testing.T) {
	var said bytes.Buffer
	r := NewRemovals(slog.New(slog.NewTextHandler(&said, nil)))
	for _, n := range []int{1, 1, 2 * mostSaid, 2 * mostSaid} {
		for i := range n {
			r.say(7, netlink.Route{Dst: &net.IPNet{IP: net.IPv4(10, 96, byte(i>>8), byte(i)), Mask: net.CIDRMask(32, 32)}})
		}
	}
	if n := strings.Count(said.String(), "\n"); n != mostSaid+1 || !strings.Contains(said.String(), "10.96.0.99/32") || !strings.Contains(said.String(), "more routes") {
		t.Errorf("%d lines:\n%s", n, said.String())
	}
	NewRemovals(nil).say(7, netlink.Route{})
}
