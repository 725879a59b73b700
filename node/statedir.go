package node

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/gridmesh/gridmesh/capture"
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
	release func()           // nil while the lock is not had
	faults  [keptKinds]error // nil where it is taken
}

func (d *stateDir) unlock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.release != nil {
		d.release()
	}
}

// lockDir locks the state directory. A disk that takes no lock keeps no node
// from its guard, where the lock of the network keeps a second agent away: a
// disk that is full or broken is when a node is most likely to start again.
func (a *Agent) lockDir() error {
	unlock, err := Lock(a.cfg.StateDir)
	switch {
	case err == nil:
		a.dir.release = unlock // nobody else runs yet
		return nil
	case errors.Is(err, ErrUnfit):
		return err
	case !DiskFails(err) || a.parts.LockNetwork == nil:
		return fmt.Errorf("--state-dir %s: %w; give a directory that this process may write", a.cfg.StateDir, err)
	}
	a.log.Error("the state directory takes no lock; that of the network keeps other agents away", obs.KeyErr, err)
	a.took(keptLock, err)
	return nil
}

// lockDirLate takes the lock that a start did not get, as soon as the disk
// takes it.
func (a *Agent) lockDirLate() {
	a.dir.mu.Lock()
	missing := a.dir.faults[keptLock] != nil
	a.dir.mu.Unlock()
	if !missing {
		return
	}
	unlock, err := Lock(a.cfg.StateDir)
	a.dir.mu.Lock()
	a.dir.release = unlock
	a.dir.mu.Unlock()
	a.took(keptLock, err)
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
			list = []capture.Finding{{Kind: stateUnkept, Text: fmt.Sprintf("--state-dir %s does not take what is to be kept (%s): this node serves, but its next start "+
				"knows an older last good state or none; make room there, mount it writable, or give another directory", a.cfg.StateDir, cause(fault))}}
			break
		}
	}
	for _, f := range a.found.replaceDisk(list) {
		a.warn(eventFinding, f.Text)
	}
	a.found.count(a.metrics.findings)
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
