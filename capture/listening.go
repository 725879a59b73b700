package capture

import (
	"fmt"
	"slices"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// stateListen is LISTEN.
const stateListen = 1 << 10

// Listening reports whether each of some TCP ports has somebody who listens, in
// this network and over IPv4. Nobody is dialled for that.
func Listening(ports ...uint16) (bool, error) {
	conn, err := nl.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return false, fmt.Errorf("open sock_diag: %w", err)
	}
	defer conn.Close()
	all, err := socketsOf(conn, unix.AF_INET, stateListen)
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
