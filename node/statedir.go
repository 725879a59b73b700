package node

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

// stateUnkept is a state directory that does not take what is to be kept there.
const stateUnkept capture.FindingKind = "state-dir"

// Lock keeps a second agent, and a cleanup beside a running one, from a node:
// ErrUnfit. Where DiskFails of another error, the lock of the network alone
// keeps them apart.
func Lock(stateDir string) (unlock func(), err error) {
	unlock, err = run.Lock(Config{StateDir: stateDir}.lockPath())
	if errors.Is(err, run.ErrInUse) {
		return nil, fmt.Errorf("%w: another gridmesh-agent runs with --state-dir %s: %w", ErrUnfit, stateDir, err)
	}
	return unlock, err
}

// DiskFails reports whether an error is that of a disk that takes nothing more,
// which is no reason not to guard a node. A path that cannot be, or may not be
// written, is a mistake in --state-dir.
func DiskFails(err error) bool {
	return slices.ContainsFunc([]error{syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EUCLEAN}, func(e error) bool { return errors.Is(err, e) })
}

// kept is something that the state directory is to take.
type kept int

const (
	keptLock kept = iota
	keptState
	keptNote
	keptKinds
)

// stateDir is the lock of the state directory, and what the disk does not take.
type stateDir struct {
	mu      sync.Mutex
	lock    func(dir string) (unlock func(), err error)    // nil for Lock
	notes   func(dir string, now time.Time) (uplink, note) // reads them; nil for newUplink
	release func()                                         // nil while the lock is not had
	trying  bool                                           // to take it, for as long as a disk may hang
	ended   bool                                           // it is not to be taken any more
	faults  [keptKinds]error                               // nil where it is taken
}

func (d *stateDir) unlock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.release != nil {
		d.release()
		d.release = nil
	}
}

// begin reports whether the lock is to be tried for, which the caller does then.
func (d *stateDir) begin() (lock func(string) (func(), error), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults[keptLock] == nil || d.trying || d.ended {
		return nil, false
	}
	d.trying = true
	return d.taker(), true
}

// taker is what takes the lock.
func (d *stateDir) taker() func(dir string) (unlock func(), err error) {
	if d.lock == nil {
		return Lock
	}
	return d.lock
}

// got takes the lock, or lets go of it where it comes after the end.
func (d *stateDir) got(unlock func()) (ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trying = false
	if d.ended && unlock != nil {
		unlock()
	} else {
		d.release = unlock
	}
	return d.ended
}

// others reports whether the directory is another agent's, which took it while
// this one had no lock: nothing may be written over what it keeps.
func (d *stateDir) others() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Is(d.faults[keptLock], ErrUnfit)
}

// soon asks a disk, which may hang, and waits no longer than diskPatience:
// errStalled. What comes later goes to late.
func soon[T any](ask func() (T, error), late func(T, error)) (T, error) {
	is, err := atomicfile.Within(diskPatience, ask, late)
	if errors.Is(err, atomicfile.ErrLate) {
		err = errStalled
	}
	return is, err
}

// lockDir locks the state directory. A disk that takes no lock keeps no node
// from its guard, where the lock of the network keeps a second agent away: a
// disk that is full or broken is when a node is most likely to start again.
func (a *Agent) lockDir() error {
	lock := a.dir.taker()
	a.dir.trying = true // nobody else runs yet
	known := make(chan struct{})
	unlock, err := soon(func() (func(), error) { return lock(a.cfg.StateDir) }, func(unlock func(), err error) {
		<-known // that it is late
		if !a.dir.got(unlock) {
			a.took(keptLock, err)
		}
	})
	defer close(known)
	if !errors.Is(err, errStalled) {
		a.dir.got(unlock)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnfit):
		a.dir.unlock() // also what comes late
		return err
	case a.parts.LockNetwork == nil || !DiskFails(err) && !errors.Is(err, errStalled):
		a.dir.unlock()
		return fmt.Errorf("--state-dir %s: %w; give a directory that this process may write", a.cfg.StateDir, err)
	}
	a.log.Error("the state directory takes no lock; that of the network keeps other agents away", obs.KeyErr, err)
	a.took(keptLock, err)
	return nil
}

// lockDirLate takes the lock that a start did not get, as soon as the disk
// takes it. Nobody waits for it: a disk may hang.
func (a *Agent) lockDirLate() {
	lock, ok := a.dir.begin()
	if !ok {
		return
	}
	go func() {
		unlock, err := lock(a.cfg.StateDir)
		if !a.dir.got(unlock) {
			a.took(keptLock, err)
		}
	}()
}

// took notes whether the state directory took something, and makes a finding of
// what it does not take. It is called by the start, by the loop and by who looks
// at the node; all of them tell the log in their own words.
func (a *Agent) took(what kept, err error) {
	d := &a.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && d.faults[what] == nil {
		return
	}
	d.faults[what] = err
	var list []capture.Finding
	for _, fault := range d.faults {
		if fault != nil {
			list = []capture.Finding{{Kind: stateUnkept, Text: a.unkept(fault)}}
			break
		}
	}
	for _, f := range a.found.replaceDisk(list) {
		a.warn(eventFinding, f.Text)
	}
	a.found.count(a.metrics.findings)
}

// unkept says what is wrong with the state directory, and the cure.
func (a *Agent) unkept(fault error) string {
	if errors.Is(fault, ErrUnfit) {
		return fmt.Sprintf("--state-dir %s is another gridmesh-agent's, which took it while the disk gave this one no lock: this node serves and keeps nothing there, so its "+
			"next start knows none of its state; stop the other one, or give each a directory of its own", a.cfg.StateDir)
	}
	return fmt.Sprintf("--state-dir %s does not take what is to be kept (%s): this node serves, but its next start "+
		"knows an older last good state or none; make room there, mount it writable, or give another directory", a.cfg.StateDir, cause(fault))
}

// cause is what the kernel says, without names of files that are others each
// time.
func cause(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}
