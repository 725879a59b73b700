package capture

import (
	"fmt"
	"net/netip"
	"slices"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// stateListen is LISTEN. A socket of UDP that is connected to nobody has stateClose.
const stateListen, stateClose = 1 << 10, 1 << 7

// Listening reports whether each of some TCP ports has somebody who listens, in
// this network and over IPv4. Nobody is dialled for that.
func Listening(ports ...uint16) (bool, error) {
	conn, err := nl.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return false, fmt.Errorf("open sock_diag: %w", err)
	}
	defer conn.Close()
	all, err := socketsOf(conn, unix.AF_INET, unix.IPPROTO_TCP, stateListen)
	if err != nil {
		return false, err
	}
	for _, port := range ports {
		if !slices.ContainsFunc(all, func(s socket) bool { return s.local.Port() == port }) {
			return false, nil
		}
	}
	return true, nil
}

// listeningUDP reports whether each of some frontends has a socket of UDP.
func listeningUDP(frontends []netip.AddrPort) (bool, error) {
	conn, err := nl.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return false, fmt.Errorf("open sock_diag: %w", err)
	}
	defer conn.Close()
	there := map[netip.AddrPort]bool{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		all, err := socketsOf(conn, family, unix.IPPROTO_UDP, stateClose)
		if err != nil {
			return false, err
		}
		for _, s := range all {
			there[s.local] = true
		}
	}
	return !slices.ContainsFunc(frontends, func(f netip.AddrPort) bool { return !there[f] }), nil
}
