package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/xds/admin"
)

var errNotListening = errors.New("nobody listens on the ports of --listen-port-base, where captured connections go")

// envoyServes asks whether Envoy has its listeners, and answers.
func (c *config) envoyServes(ctx context.Context) error {
	ports := c.capture.Ports
	there, err := capture.Listening(ports.Keep(), ports.Plain())
	if err == nil && !there {
		return errNotListening
	}
	err = admin.Ready(ctx, ports.Health()) // which tells, too, where sockets cannot be listed
	if lacking(err) {
		return fmt.Errorf("%w: %w", node.ErrNotKnown, err)
	}
	return err
}

// lacks are what this process, or the node, may not have, or not be allowed, of what
// it takes to ask: descriptors, memory, ports, and what a firewall of its own refuses.
var lacks = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EADDRNOTAVAIL,
	unix.EPERM, unix.EACCES, unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTUNREACH,
}

// lacking reports whether an answer did not come for a reason of our own: that is no
// word about Envoy. Who has no socket has asked nobody.
func lacking(err error) bool {
	var call *os.SyscallError
	return errors.As(err, &call) && call.Syscall == "socket" ||
		slices.ContainsFunc(lacks, func(lack error) bool { return errors.Is(err, lack) })
}
