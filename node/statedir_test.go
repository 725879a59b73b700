package node

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
)

// lateLock is an agent that has no lock of its state directory, and asks for it
// again with each look.
func lateLock(t *testing.T, lock func(string) (func(), error)) *rig {
	t.Helper()
	r := newRig(t)
	r.mustStart(t)
	r.agent.dir.mu.Lock()
	r.agent.dir.lock = lock
	r.agent.dir.mu.Unlock()
	r.agent.took(keptLock, unix.EROFS)
	return r
}

// A disk that hangs where the lock is asked for again keeps nobody from looking
// at the node, and what comes of it after the end is let go of.
func TestALockThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan struct{})
		var asked, unlocked atomic.Int64
		r := lateLock(t, func(string) (func(), error) {
			asked.Add(1)
			<-disk
			return func() { unlocked.Add(1) }, nil
		})
		after(2 * inspectEvery)
		r.mu.Lock()
		r.found = []capture.Finding{{Kind: capture.PolicyEngine, Text: "found later"}}
		r.mu.Unlock()
		after(3 * inspectEvery)
		if list := fmt.Sprint(r.agent.status().Findings); !strings.Contains(list, "found later") || !strings.Contains(list, "read-only") || asked.Load() != 1 {
			t.Errorf("asked %d times, found: %s", asked.Load(), list)
		}
		r.stop()
		r.agent.dir.unlock()
		close(disk)
		synctest.Wait()
		r.agent.lockDirLate()
		synctest.Wait()
		if asked.Load() != 1 || unlocked.Load() != 1 {
			t.Errorf("asked %d times, unlocked %d times after the end", asked.Load(), unlocked.Load())
		}
	})
}

// A directory that another agent took meanwhile is that one's, until it ends.
func TestAStateDirectoryOfAnotherAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Bool
		r := lateLock(t, func(string) (func(), error) {
			if free.Load() {
				return func() {}, nil
			}
			return nil, fmt.Errorf("%w: another agent", ErrUnfit)
		})
		after(2 * inspectEvery)
		if got := r.unkept(); !strings.Contains(got, "another gridmesh-agent's") || strings.Contains(got, "make room") {
			t.Errorf("said: %s", got)
		}
		r.hear(unitWeb())
		after(3 * saveInterval)
		if r.exists("state") || r.exists("contact") {
			t.Error("something was written over what the other agent keeps")
		}
		free.Store(true) // it ended
		after(2*inspectEvery + 2*saveInterval)
		if got := r.unkept(); got != "" || !r.exists("state") {
			t.Errorf("afterwards: %q, a state: %v", got, r.exists("state"))
		}
	})
}
