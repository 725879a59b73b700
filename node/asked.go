package node

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// lacks are what this process, or the node, may not have, or not be allowed, of what
// it takes to ask: descriptors, memory, ports, and what a firewall of its own refuses.
var lacks = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EADDRNOTAVAIL,
	unix.EPERM, unix.EACCES, unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTUNREACH,
}

// Asked is what a request to Envoy says of it: err, or ErrNotKnown where no answer
// came for a reason of our own. Who has no socket has asked nobody.
func Asked(err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) && call.Syscall == "socket" || slices.ContainsFunc(lacks, func(lack error) bool { return errors.Is(err, lack) }) {
		return fmt.Errorf("%w: %w", ErrNotKnown, err)
	}
	return err
}
