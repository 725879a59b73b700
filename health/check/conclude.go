package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

type verdict uint8

const (
	isUnknown verdict = iota
	isWell
	isNot
)

// finding is what a probe found, and why for people.
type finding struct {
	verdict
	why string
}

// ownFaults are what keeps this node from looking, and says nothing of the other one. That
// there is no route to a host is not among them: so it is when nobody answers on a link.
var ownFaults = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EADDRNOTAVAIL, unix.ENETDOWN, unix.ENETUNREACH,
	unix.EPERM, unix.EACCES, unix.EINVAL, unix.EAFNOSUPPORT,
}

// pause is between two attempts: what fails at once had better not fail as often as it can.
const pause = 200 * time.Millisecond

// look tries as often as it may, until the node is well. within ends what one check may
// take; where ctx ends nothing is concluded.
func (w *weighted) look(ctx, within context.Context, t Target) finding {
	if !t.Addr.IsValid() {
		return finding{isUnknown, "the node has no address"}
	}
	var found finding
	for i := range w.Attempts {
		if i > 0 {
			select {
			case <-time.After(pause):
			case <-within.Done():
			}
			if ended(ctx) {
				return finding{isUnknown, cancelled}
			}
			if ended(within) {
				return found
			}
		}
		attempt, cancel := context.WithTimeout(within, w.Timeout)
		note, err := w.Look(attempt, t)
		cancel()
		switch {
		case err == nil:
			return finding{isWell, note}
		case ended(ctx):
			return finding{isUnknown, cancelled}
		}
		found = conclude(err)
	}
	return found
}

const cancelled = "the check was cancelled"

// ended reports whether a context has ended, or is about to: a connection's deadline is the
// context's, and passes before the context knows.
func ended(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}

func conclude(err error) finding {
	why := err.Error()
	switch {
	case slices.ContainsFunc(ownFaults, func(own error) bool { return errors.Is(err, own) }):
		return finding{isUnknown, "this node cannot look: " + why}
	case errors.Is(err, unix.ECONNREFUSED):
		why = fmt.Sprintf("%s (somebody answers there, but nobody takes connections at that port)", why)
	}
	return finding{isNot, why}
}
