package node

import (
	"errors"
	"fmt"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
)

// stateUnkept is a state directory that does not take what is to be kept there.
const stateUnkept capture.FindingKind = "state-dir"

// lockDir locks the state directory. A disk that takes no lock keeps no node
// from its guard, where the lock of the network keeps a second agent away: a
// disk that is full or broken is when a node is most likely to start again.
func (a *Agent) lockDir() error {
	err := a.dir.Lock(a.patience.Left())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, run.ErrInUse):
		a.dir.Unlock() // also what comes late
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	case errors.Is(err, run.ErrNoLock): // which no other directory cures
		a.dir.Unlock()
		return fmt.Errorf("--state-dir %s: %w", a.cfg.StateDir, err)
	case a.parts.LockNetwork == nil || !statedir.DiskFails(err) && !errors.Is(err, atomicfile.ErrLate):
		a.dir.Unlock()
		return fmt.Errorf("--state-dir %s: %w; give a directory that this process may write", a.cfg.StateDir, err)
	}
	a.log.Error("the state directory takes no lock; that of the network keeps other agents away", obs.KeyErr, err)
	return nil
}

// stateFault makes a finding of what the state directory does not take, and of
// nil none. All who have it take something tell the log in their own words.
func (a *Agent) stateFault(fault error) {
	var list []capture.Finding
	if fault != nil {
		list = []capture.Finding{{Kind: stateUnkept, Text: a.unkept(fault)}}
	}
	for _, f := range a.found.replaceDisk(list) {
		a.warn(eventFinding, f.Text)
	}
}

// unkept says what is wrong with the state directory, and the cure.
func (a *Agent) unkept(fault error) string {
	if errors.Is(fault, run.ErrInUse) {
		return fmt.Sprintf("--state-dir %s is another gridmesh-agent's, which took it while the disk gave this one no lock: this node serves and keeps nothing there, so its "+
			"next start knows none of its state; stop the other one, or give each a directory of its own", a.cfg.StateDir)
	}
	if errors.Is(fault, source.ErrTooLarge) {
		return fmt.Sprintf("--state-dir %s keeps an older last good state, for the newest one of this node %s: this node serves, but its next start knows that older one, or none; "+
			"it is tried again and again: see which Services have thousands of endpoints, or give a smaller --preload-max", a.cfg.StateDir, source.ErrTooLarge)
	}
	if errors.Is(fault, source.ErrUnread) {
		return fmt.Sprintf("--state-dir %s does not give the last good state that is kept there (%s): this node serves without it, and keeps no newer one "+
			"before it was read or %s are over; it is tried again and again: see what hinders that", a.cfg.StateDir, statedir.Cause(fault), giveUpAfter)
	}
	return fmt.Sprintf("--state-dir %s does not take what is to be kept (%s): this node serves, but its next start "+
		"knows an older last good state or none; make room there, mount it writable, or give another directory", a.cfg.StateDir, statedir.Cause(fault))
}
