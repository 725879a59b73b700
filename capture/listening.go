package capture

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// Listening reports whether each of some TCP ports has somebody who listens, in
// this network and over IPv4. Nobody is dialled for that.
func Listening(ports ...uint16) (bool, error) {
	conn, err := sockdiag.Dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	all, err := conn.List(unix.AF_INET, unix.IPPROTO_TCP, sockdiag.Listen, 0)
	if err != nil {
		return false, err
	}
	for _, port := range ports {
		if !slices.ContainsFunc(all, func(s sockdiag.Socket) bool { return s.Local.Port() == port }) {
			return false, nil
		}
	}
	return true, nil
}

// listeningUDP reports whether each of some frontends has a socket of UDP.
func listeningUDP(frontends []netip.AddrPort) (bool, error) {
	conn, err := sockdiag.Dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	all, err := conn.Both(unix.IPPROTO_UDP, sockdiag.Closed, 0)
	if err != nil {
		return false, err
	}
	there := map[netip.AddrPort]bool{}
	for _, s := range all {
		there[s.Local] = true
	}
	return !slices.ContainsFunc(frontends, func(f netip.AddrPort) bool { return !there[f] }), nil
}
