package node

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// lateLock is an agent that has no lock of its state directory, and asks for it
// again with each look.
func lateLock(t *testing.T, lock func(string) (func(), error)) *rig {
	t.Helper()
	r := newRig(t)
	started := false
	r.lock = func(dir string) (func(), error) {
		if !started {
			started = true
			return nil, unix.EROFS
		}
		return lock(dir)
	}
	r.mustStart(t)
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
		r.agent.dir.Unlock()
		close(disk)
		synctest.Wait()
		r.agent.dir.LockLate()
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
			return nil, fmt.Errorf("%w: another agent", run.ErrInUse)
		})
		after(2 * inspectEvery)
		if got := r.unkept(); !strings.Contains(got, "another gridmesh-agent's") || strings.Contains(got, "make room") {
			t.Errorf("said: %s", got)
		}
		r.hear(unitWeb())
		after(3 * statedir.SaveInterval)
		if r.exists("state") || r.exists("contact") {
			t.Error("something was written over what the other agent keeps")
		}
		free.Store(true) // it ended
		after(2*inspectEvery + 2*statedir.SaveInterval)
		if got := r.unkept(); got != "" || !r.exists("state") {
			t.Errorf("afterwards: %q, a state: %v", got, r.exists("state"))
		}
	})
}

// A disk that hangs at the start keeps no node from its guard for long, and has
// the lock when it is back.
func TestALockThatHangsAtTheStart(t *testing.T) {
	for name, network := range map[string]func() (func(), error){"behind the lock of the network": func() (func(), error) { return func() {}, nil }, "alone": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				p := r.parts()
				p.LockNetwork = network
				a, err := New(r.cfg, p)
				must(t, err)
				disk := make(chan struct{})
				var unlocked atomic.Int64
				a.dir.TakeLock = func(string) (func(), error) {
					<-disk
					return func() { unlocked.Add(1) }, nil
				}
				began := time.Now()
				if err := a.lockDir(); (err == nil) != (network != nil) || time.Since(began) != statedir.StartPatience {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				close(disk)
				synctest.Wait()
				if network != nil {
					if list := a.status().Findings; len(list) > 0 || unlocked.Load() != 0 {
						t.Errorf("the disk is back: %v, unlocked %d times", list, unlocked.Load())
					}
					a.dir.Unlock()
				}
				if n := unlocked.Load(); n != 1 {
					t.Errorf("unlocked %d times", n)
				}
			})
		})
	}
}

// slow is who reads the log and lets its writers wait.
type slow time.Duration

func (s slow) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(s))
	return len(b), nil
}

// A lock that the disk gives just after a start gave it up, while that is still being
// said, is had like any other, and not taken for another agent's.
func TestALockThatComesJustTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.parts()
		p.LockNetwork = func() (func(), error) { return func() {}, nil }
		p.Log = slog.New(slog.NewTextHandler(slow(time.Second), nil))
		a, err := New(r.cfg, p)
		must(t, err)
		a.dir.TakeLock = func(dir string) (func(), error) {
			time.Sleep(statedir.StartPatience + time.Millisecond)
			return statedir.Lock(dir)
		}
		must(t, a.lockDir())
		a.dir.LockLate()
		after(time.Minute)
		if list := a.status().Findings; len(list) > 0 || a.dir.Others() {
			t.Errorf("it is had, and said is %v; another's: %v", list, a.dir.Others())
		}
		if _, err := statedir.Lock(r.cfg.StateDir); !errors.Is(err, run.ErrInUse) {
			t.Errorf("it is not had: %v", err)
		}
		a.dir.Unlock()
		unlock, err := statedir.Lock(r.cfg.StateDir)
		must(t, err)
		unlock()
	})
}
