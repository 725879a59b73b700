package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// Config is what has to be known of the agent whose traces are to go. Its paths are
// absolute, and none is empty.
type Config struct {
	// Capture is the agent's: by its marks and its route table rules are known.
	Capture plan.Config
	// Host has the directory of the state, and where sysctls are.
	Host capture.Host
	// The Unix sockets of the agent, and that of Envoy's admin interface.
	XDSSocket, StatusSocket, FeedSocket, AdminSocket string
	// Files is whether files go too: the sockets, the bootstrap beside that of xDS,
	// and what is Kept.
	Files bool
	// Patience is how long the disk of the directory of the state is waited for, each
	// time; 0: 10 s.
	Patience time.Duration
}

// diskPatience is Config.Patience where nobody says.
const diskPatience = 10 * time.Second

// Run takes gridmesh's traces away from the node and the network that this process is
// in. It wants the right to administer that network. Where an agent runs it takes
// nothing away: node.ErrUnfit, or run.ErrInUse. A disk that hangs keeps rules and
// routes from going no longer than its patience: atomicfile.ErrLate, with what is left.
func Run(ctx context.Context, c Config) (Result, error) {
	c.Patience = cmp.Or(c.Patience, diskPatience)
	was, err := c.wasHere()
	if err != nil {
		return Result{}, err
	}
	recorded := c.recorded()
	left, err := c.takeAway(ctx, was)
	if err != nil {
		return Result{}, err
	}
	r := Result{StateDir: c.Host.StateDir, Found: was, Left: left}
	if was && !recorded {
		r.Doubtful = c.zeroes()
	}
	return r, nil
}

// recorded reports whether there may be records of sysctls: files that were lost put
// nothing back, and that is to be said.
func (c Config) recorded() bool {
	info, err := atomicfile.Within(c.Patience, func() (os.FileInfo, error) { return os.Lstat(c.kept(capture.SysctlDir)) }, nil)
	return err == nil && info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// zeroes names those sysctls that gridmesh sets to 0, whatever the node's networks
// are called, and that are.
func (c Config) zeroes() (list []string) {
	for _, key := range capture.Sysctls() {
		value, err := os.ReadFile(filepath.Join(c.Host.ProcSys, strings.ReplaceAll(key, ".", "/")))
		if err == nil && strings.TrimSpace(string(value)) == "0" {
			list = append(list, key)
		}
	}
	return list
}

// wasHere reports whether there is anything to take away.
func (c Config) wasHere() (bool, error) {
	if there, err := capture.Installed(c.Capture); there || err != nil {
		return there, err
	}
	there, err := c.onDisk()
	if err != nil {
		return false, fmt.Errorf("no rules of gridmesh are in this network, but --state-dir %s: %w: what is to be put back from there is not known; run this again when it does", c.Host.StateDir, err)
	}
	return there, nil
}

// onDisk reports whether anything is Kept; atomicfile.ErrLate where the disk does
// not say.
func (c Config) onDisk() (bool, error) {
	return atomicfile.Within(c.Patience, func() (bool, error) {
		for _, name := range Kept() {
			if _, err := os.Lstat(c.kept(name)); err == nil {
				return true, nil
			}
		}
		return false, nil
	}, nil)
}

// takeAway takes gridmesh's traces away, while no agent can start, and returns what it
// leaves. A disk that takes nothing more, or hangs, keeps none of them there: the
// network is locked, too. Any other disk is one that --state-dir does not mean: what
// there is to put back, as sysctls, would not be found. One that is not there is not
// made, and one with nothing of gridmesh in it stays so.
func (c Config) takeAway(ctx context.Context, was bool) ([]Left, error) {
	lock := statedir.New(c.Host.StateDir, func(error) {})
	lock.TakeLock = lockKept
	defer lock.Unlock() // also what comes late
	locked, err := c.lock(lock, was)
	if err != nil {
		return nil, err
	}
	if locked && !was && !c.Files {
		defer c.forgetLock()
	}
	err = capture.Cleanup(ctx, c.Capture, c.Host) // which waits for no disk for long
	if there, _ := capture.Installed(c.Capture); errors.Is(err, atomicfile.ErrLate) && !there {
		return nil, c.notPutBack()
	}
	if err != nil {
		return nil, err
	}
	left, err := c.tidyAlone()
	if errors.Is(err, atomicfile.ErrLate) {
		return nil, fmt.Errorf("rules, routes and sysctls are gone from this node, but --state-dir %s: %w: files are left there; run this again when it does", c.Host.StateDir, err)
	}
	return left, err
}

// lock locks the directory of the state, as far as there is one and that can be, and
// reports whether it did.
func (c Config) lock(dir *statedir.Dir, was bool) (locked bool, err error) {
	err = dir.Lock(c.Patience)
	switch {
	case err == nil:
		return true, nil
	case statedir.DiskFails(err), errors.Is(err, atomicfile.ErrLate):
		return false, nil
	case errors.Is(err, node.ErrUnfit):
		return false, err
	case !was: // nothing has to be put back from there
		return false, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, c.noSuchDir()
	case errors.Is(err, run.ErrNoLock):
		return false, fmt.Errorf("--state-dir %s: %w: nothing is removed", c.Host.StateDir, err)
	}
	return false, fmt.Errorf("--state-dir %s: %w; give the agent's, as one who may write it: nothing is removed", c.Host.StateDir, err)
}

// forgetLock removes the file of the lock, which is had. There was none when it was looked
// what is kept; an agent that came and ended since makes its own anew.
func (c Config) forgetLock() {
	_, _ = atomicfile.Within(c.Patience, func() (string, error) {
		return trace{c.kept(statedir.LockFile), keptFiles[statedir.LockFile]}.remove()
	}, nil)
}

// tidyAlone tidies while no agent can start: also one with another directory has sockets,
// and a bootstrap beside them.
func (c Config) tidyAlone() ([]Left, error) {
	unlock, err := node.LockNetwork()
	if err != nil {
		return nil, fmt.Errorf("rules, routes and sysctls are gone from this node, and files are left there: %w", err)
	}
	defer unlock()
	return atomicfile.Within(c.Patience, c.tidy, nil)
}

// tidy removes files, where that is wanted, and returns what it leaves.
func (c Config) tidy() ([]Left, error) {
	left, err := c.leftOfSysctls()
	if !c.Files {
		return left, err
	}
	more, unremoved := c.removeFiles()
	return append(left, more...), errors.Join(err, unremoved)
}

// notPutBack says what a cleanup has left that a disk keeps waiting: rules and routes
// go first, and then what was written down of sysctls is read.
func (c Config) notPutBack() error {
	return fmt.Errorf("rules and routes are gone from this node, and gridmesh serves no Service here any more, but --state-dir %s: %w: the sysctls that gridmesh has set to 0 stay so, for what they were is written there "+
		"(net.bridge.bridge-nf-call-iptables and -ip6tables, net.ipv4.tcp_early_demux, and send_redirects of the bridges of pods); run this again when it does, or set them", c.Host.StateDir, atomicfile.ErrLate)
}

// noSuchDir is why nothing is taken away where there is no state directory but
// rules: an agent that runs, or a name that is not the agent's.
func (c Config) noSuchDir() error {
	unlock, err := node.LockNetwork()
	if err != nil {
		return err
	}
	unlock()
	return fmt.Errorf("--state-dir %s is not there, but rules are, and what is to be put back is in the agent's: give that one, or make the directory where it is lost: nothing is removed", c.Host.StateDir)
}

// lockKept is the lock of a state directory that is there.
func lockKept(dir string) (unlock func(), err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return node.Lock(dir)
}
