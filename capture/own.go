package capture

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// OwnSockets returns a Control of a net.Dialer that has connections left alone by what is
// served, as Envoy's own are: the agent is to reach the API server whatever somebody made a
// Service's address, or it would never hear that it is one no more. Who may not mark
// packets (CAP_NET_ADMIN) dials as everybody.
func OwnSockets(cfg plan.Config) func(network, address string, conn syscall.RawConn) error {
	return func(_, _ string, conn syscall.RawConn) error {
		var err error
		asked := conn.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(cfg.Own()))
		})
		if errors.Is(err, unix.EPERM) {
			err = nil
		}
		return errors.Join(asked, err)
	}
}
