package statedir

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/run"
)

// LockFile is the name of the lock in a state directory.
const LockFile = "lock"

// Lock keeps a second agent, and a cleanup beside a running one, from a state
// directory: run.ErrInUse. Where DiskFails of another error, the lock of the
// network alone keeps them apart.
func Lock(dir string) (unlock func(), err error) {
	unlock, err = run.Lock(filepath.Join(dir, LockFile))
	if errors.Is(err, run.ErrInUse) {
		return nil, fmt.Errorf("another gridmesh-agent, or a cleanup, runs with --state-dir %s: %w", dir, err)
	}
	return unlock, err
}

// DiskFails reports whether an error is that of a disk that takes nothing more,
// which is no reason not to guard a node. A path that cannot be, or may not be
// written, is a mistake in --state-dir.
func DiskFails(err error) bool {
	return slices.ContainsFunc([]error{syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EUCLEAN}, func(e error) bool { return errors.Is(err, e) })
}

// Kept is something that the state directory is to take.
type Kept int

// What is kept there.
const (
	keptLock Kept = iota // the lock's own to tell
	KeptState
	KeptNote
	KeptManifests
	keptKinds
)

// Dir is the lock of the state directory, and what the disk does not take.
type Dir struct {
	// TakeLock takes the lock: Lock.
	TakeLock func(dir string) (unlock func(), err error)

	path    string
	faulty  func(error) // told of the first fault whenever one comes or goes; nil for none
	mu      sync.Mutex
	release func()           // nil while the lock is not had
	trying  bool             // to take it, for as long as a disk may hang
	ended   bool             // it is not to be taken any more
	faults  [keptKinds]error // nil where it is taken
}

// New touches nothing. faulty is told what the directory does not take, the
// first of it, nil for nothing: whenever that may have changed, one call after
// another.
func New(path string, faulty func(error)) *Dir {
	return &Dir{TakeLock: Lock, path: path, faulty: faulty}
}

// Unlock lets go of the lock, also where it comes late.
func (d *Dir) Unlock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.release != nil {
		d.release()
		d.release = nil
	}
}

// Lock takes the lock, and waits no longer than patience: atomicfile.ErrLate. Of that, and
// where DiskFails of what it returns, faulty is told, until LockLate, or the disk by
// itself, has brought it.
func (d *Dir) Lock(patience time.Duration) error {
	d.mu.Lock()
	d.trying = true
	take := d.TakeLock
	d.mu.Unlock()
	known := make(chan struct{})
	defer close(known)
	unlock, err := atomicfile.Within(patience, func() (func(), error) { return take(d.path) }, func(unlock func(), err error) {
		<-known // that it is late
		d.got(unlock, err)
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	late := errors.Is(err, atomicfile.ErrLate)
	if !late {
		d.trying, d.release = false, unlock
	}
	if late || DiskFails(err) { // before got may say that it is had
		d.took(keptLock, err)
	}
	return err
}

// LockLate takes the lock that a start did not get, as soon as the disk takes
// it. Nobody waits for it: a disk may hang.
func (d *Dir) LockLate() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults[keptLock] == nil || d.release != nil || d.trying || d.ended {
		return
	}
	d.trying = true
	take := d.TakeLock
	go func() { d.got(take(d.path)) }()
}

// got takes the lock, or lets go of it where it comes after the end.
func (d *Dir) got(unlock func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trying = false
	if d.ended {
		if unlock != nil {
			unlock()
		}
		return
	}
	d.release = unlock
	d.took(keptLock, err)
}

// Others reports whether the directory is another agent's, which took it while
// this one had no lock: nothing may be written over what it keeps.
func (d *Dir) Others() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Is(d.faults[keptLock], run.ErrInUse)
}

// Took notes whether the directory took something. It may be called by anybody.
func (d *Dir) Took(what Kept, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.took(what, err)
}

func (d *Dir) took(what Kept, err error) {
	if err == nil && d.faults[what] == nil {
		return
	}
	d.faults[what] = err
	for _, fault := range d.faults {
		if fault != nil {
			d.faulty(fault)
			return
		}
	}
	d.faulty(nil)
}

// Cause is what the kernel says, without names of files that are others each
// time.
func Cause(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}
