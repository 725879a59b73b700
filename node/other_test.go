package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
)

// The last good state of another node, as of a machine that was copied, is not believed: it has
// what that node needs, and ranges that are not this one's pods'. It is said whose it is.
func TestTheStateOfAnotherNode(t *testing.T) {
	for of, believed := range map[string]bool{"b-7": false, "a-1": true, "": true} { // "": of before it said so
		t.Run("of "+of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				kept := &source.State{Snapshot: webOnly().Snapshot(), Used: []string{"10.96.0.10:80"}, PodCIDRs: prefixes("10.244.7.0/24"), Node: of}
				must(t, source.NewKeeper(r.cfg.statePath(), 0).Write(kept, time.Now()))
				r.api = &nodetest.API{Away: errBroken}
				r.mustStart(t)
				after(liveFirst + time.Second)
				rules, _ := r.kernel.InForce()
				if got := len(rules.Serve) > 0; got != believed {
					t.Errorf("%v are served", rules.Serve)
				}
				if got := slices.Equal(rules.Pods, kept.PodCIDRs); got != believed {
					t.Errorf("the pods are %v", rules.Pods)
				}
				if got := r.saved(t); r.exists("state.bad") || got == nil || got.Node != of {
					t.Errorf("before there is a newer one: %+v", got)
				}
				wantOtherSaid(t, r, of, !believed)
				r.hear(webAndOther())
				after(2 * statedir.SaveInterval)
				if got := r.saved(t); got == nil || got.Node != "a-1" || got.Snapshot.Services.Len() != 2 || slices.Equal(got.PodCIDRs, kept.PodCIDRs) != believed {
					t.Errorf("kept then: %+v", got)
				}
			})
		})
	}
}

func wantOtherSaid(t *testing.T, r *rig, of string, said bool) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "another node's") {
			lines = append(lines, line)
		}
	}
	switch {
	case !said && len(lines) > 0:
		t.Errorf("said: %q", lines)
	case said && len(lines) != 1:
		t.Errorf("said %d times: %q", len(lines), lines)
	case said:
		for _, want := range []string{"level=WARN", of, "a-1", r.cfg.statePath(), "--node-name", "--state-dir"} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("%q does not say %s", lines[0], want)
			}
		}
	}
}

// A state that is too large to be kept is told as that, with the cure, and the one before stays.
func TestAStateThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		before, put := r.saved(t), r.loop.saver.Put
		var large atomic.Bool
		large.Store(true)
		r.loop.saver.Put = func(st *source.State, now time.Time) error {
			if large.Load() { // what is there already stays, and is counted as a write
				return errors.Join(put(before, now), source.ErrTooLarge)
			}
			return put(st, now)
		}
		r.publish(webAndOther())
		after(2 * statedir.SaveInterval)
		if got := r.unkept(); !strings.Contains(got, "too large") || !strings.Contains(got, "--preload-max") || strings.Contains(got, "make room") {
			t.Errorf("said: %q", got)
		}
		if n := r.saved(t).Snapshot.Services.Len(); n != 1 || r.log.Count("could not keep the last good state") == 0 {
			t.Errorf("%d Services are kept, want those of before; log:\n%s", n, r.log.String())
		}
		r.wantServed(t, "not kept", webFrontend, otherFrontend)
		large.Store(false)
		after(2 * statedir.SaveInterval)
		if got := r.unkept(); got != "" || r.saved(t).Snapshot.Services.Len() != 2 {
			t.Errorf("small again: %q", got)
		}
	})
}

// A directory, or a link, in the place of the lock is cured by its going, and by no other
// --state-dir.
func TestWhatIsInThePlaceOfTheLock(t *testing.T) {
	for what, put := range map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":      func(path string) error { return os.Symlink("/nowhere", path) },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			lock := filepath.Join(r.cfg.StateDir, statedir.LockFile)
			must(t, put(lock))
			locks := func() (*Agent, error) {
				p := r.parts()
				p.LockNetwork = func() (func(), error) { return func() {}, nil }
				a, err := New(r.cfg, p)
				must(t, err)
				a.patience.Of = time.Hour // the disk is no subject
				return a, a.lockDir()
			}
			_, err := locks()
			if err == nil || !strings.Contains(err.Error(), lock+" is "+what) || strings.Contains(err.Error(), "give a directory") {
				t.Errorf("said: %v", err)
			}
			must(t, os.Remove(lock))
			a, err := locks()
			must(t, err)
			a.dir.Unlock()
		})
	}
}
