package capture

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// refusal is that the kernel took a transaction, and did not go through with it
// for what is in the table. What is lacking (memory, buffers, descriptors) is
// none, and neither is a question without an answer: making the table anew
// cures neither, and takes elements out of force.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Of the second kind the kernel may say one beside many of the first.
var (
	refusals = []error{
		unix.EBUSY, unix.EEXIST, unix.ENOENT, unix.EINVAL, unix.EOPNOTSUPP, unix.ELOOP, unix.EMLINK,
		unix.ERANGE, unix.EOVERFLOW, unix.ENOTEMPTY, unix.EISDIR, unix.ENOTDIR,
	}
	lacking = []error{unix.ENOMEM, unix.ENOBUFS, unix.EMFILE, unix.ENFILE, unix.EMSGSIZE, unix.EAGAIN, unix.EINTR, unix.ETIMEDOUT}
)

// refused marks the error of a transaction that is a refusal.
func refused(err error) error {
	is := func(e error) bool { return errors.Is(err, e) }
	if err != nil && slices.ContainsFunc(refusals, is) && !slices.ContainsFunc(lacking, is) {
		return refusal{err}
	}
	return err
}

// remakes bounds how often a table is made anew while that is no cure.
type remakes struct {
	last  time.Time
	pause time.Duration // 0: none failed
}

const (
	firstRemakePause = 10 * time.Second // no attempt makes it anew twice
	lastRemakePause  = 5 * time.Minute
)

// due reports whether an error is cured by making the table anew, now: whoever
// asks does it then.
func (r *remakes) due(err error, now time.Time) bool {
	var of refusal
	if !errors.As(err, &of) || r.pause > 0 && now.Sub(r.last) < r.pause {
		return false
	}
	r.last, r.pause = now, min(max(2*r.pause, firstRemakePause), lastRemakePause)
	return true
}

// cured forgets: all was written.
func (r *remakes) cured() { r.pause = 0 }
