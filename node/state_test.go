package node

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
)

// saved is the state on disk; nil for none.
func (r *rig) saved(t *testing.T) *source.State {
	t.Helper()
	st, err := source.ReadState(filepath.Join(r.cfg.StateDir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// served leaves rules and a state with a Service behind, as a run before.
func (r *rig) runBefore(t *testing.T) {
	t.Helper()
	r.mustStart(t)
	r.publish(webOnly())
	r.stop()
	r.again()
}

// Where rules are in force, waiting for the source costs nothing; where none
// are, every moment does.
func TestRestoreWaitsForTheSourceWhereRulesWereFound(t *testing.T) {
	for name, tc := range map[string]struct {
		found bool
		live  time.Duration // when the source has its first snapshot; 0: never
		wait  time.Duration // until the state serves; 0: it never does
	}{
		"rules, source in time":  {found: true, live: 400 * time.Millisecond},
		"rules, no source":       {found: true, wait: liveFirst},
		"rules, source too late": {found: true, live: time.Minute, wait: liveFirst},
		"no rules":               {wait: time.Nanosecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.runBefore(t)
				if !tc.found {
					r.kernel.Flush()
				}
				if tc.live > 0 {
					time.AfterFunc(tc.live, func() { r.source.Publish(webAndOther().Snapshot()) })
				}
				r.mustStart(t)
				r.journal.Take()
				after(liveFirst - time.Nanosecond)
				early := r.log.Count("serving from the last good state") > 0
				after(time.Nanosecond)
				late := r.log.Count("serving from the last good state") > 0
				if early != (tc.wait > 0 && tc.wait < liveFirst) || late != (tc.wait > 0) {
					t.Errorf("the state serves before %s: %v, at it: %v", liveFirst, early, late)
				}
				if tc.live > 0 {
					after(tc.live)
					r.wantServed(t, "live", webFrontend, otherFrontend)
					if got := r.agent.status().Source; got != report.Live {
						t.Errorf("the status says %q", got)
					}
				}
			})
		})
	}
}

// What is in force may be newer than the state: it is added to, never changed
// or taken away.
func TestTheLastGoodStateOnlyAdds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runBefore(t)
		state := filepath.Join(r.cfg.StateDir, "state")
		old, err := os.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		r.mustStart(t)
		o := webAndOther()
		o.Delete("web")
		r.publish(o)
		r.stop()
		if err := os.WriteFile(state, old, 0o600); err != nil { // as after kill -9
			t.Fatal(err)
		}
		r.again()
		r.mustStart(t)
		after(liveFirst)
		r.wantServed(t, "restored", webFrontend, otherFrontend)
		snap, ok := r.agent.snapshot.Get()
		if !ok || !snap.Partial {
			t.Error("other processes are fed the state as the whole")
		}
		r.publish(o)
		r.wantServed(t, "live", otherFrontend)
		if snap, _ := r.agent.snapshot.Get(); snap.Partial {
			t.Error("other processes are fed the whole as a part")
		}
	})
}

// A state is written at once, soon where changes come after a pause, once an
// interval where they go on, never from a state itself, and at the end.
func TestWhenTheStateIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		if r.saved(t) != nil {
			t.Error("written before there was anything")
		}
		writes, put := 0, r.loop.saver.Put
		r.loop.saver.Put = func(st *source.State, now time.Time) error { writes++; return put(st, now) }
		services := func() int { return r.saved(t).Snapshot.Services.Len() }
		r.publish(webOnly())
		if n := services(); n != 1 {
			t.Errorf("%d Services are saved at once, want 1", n)
		}
		const soon = time.Second // is how soon it is on disk after a pause
		after(soon / 2)
		r.publish(webAndOther())
		if n := services(); n != 1 {
			t.Errorf("%d Services are saved within a moment, want 1", n)
		}
		after(soon / 2)
		if n := services(); n != 2 {
			t.Errorf("%d Services are saved soon, want 2", n)
		}
		after(time.Hour)
		writes = 0
		for range 600 {
			r.publish(webOnly())
			after(500 * time.Millisecond)
			r.publish(webAndOther())
			after(500 * time.Millisecond)
		}
		if want := int(10 * time.Minute / statedir.SaveInterval); writes < want || writes > want+5 {
			t.Errorf("%d writes in 10 minutes of changes, want %d, and a few sooner", writes, want)
		}
		r.publish(webOnly())
		r.stop()
		if n := services(); n != 1 {
			t.Errorf("%d Services are saved at the end, want 1", n)
		}
	})
}

// A node that loses its power, and its cloud, some seconds after it was started
// serves what was made in these seconds.
func TestAPowerCutInTheFirstSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.mustStart(t)
		o := nodetest.NewObjects()
		var want []string
		for i := range 4 {
			o.Closed(fmt.Sprintf("s%d", i), fmt.Sprintf("10.96.0.%d", i+1), map[string]string{"a-2": "10.244.2.5"})
			want = append(want, fmt.Sprintf("10.96.0.%d:80/tcp", i+1))
			r.hear(o)
			after(2 * time.Second)
		}
		r.cut(0)
		r.restart(t, true, 0)
		r.kernel.Flush()
		r.links <- struct{}{}
		after(liveFirst + time.Second)
		r.wantServed(t, "after a boot without a cloud", want...)
	})
}

// While only the last good state serves there is nothing to save, also where a
// write fails or Envoy asks for something.
func TestNothingIsSavedBeforeTheSourceIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runBefore(t)
		r.capture.Fail("Extend", errBroken)
		path := filepath.Join(r.cfg.StateDir, "state")
		r.mustStart(t)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		after(liveFirst)
		r.xds.Ask("10.96.0.10:80")
		after(time.Minute)
		r.stop()
		if r.saved(t) != nil {
			t.Error("a state was made from a state")
		}
	})
}

func TestAStateThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		away := r.cfg.StateDir + "-away"
		if err := os.Rename(r.cfg.StateDir, away); err != nil {
			t.Fatal(err)
		}
		r.publish(webOnly())
		if n := r.metric(t, "gridmesh_state_failures_total"); n != 1 {
			t.Errorf("%v failures are counted, want 1", n)
		}
		r.wantHealthy(t, "without a state", true)
		if err := os.Rename(away, r.cfg.StateDir); err != nil {
			t.Fatal(err)
		}
		after(statedir.SaveInterval)
		if st := r.saved(t); st == nil {
			t.Error("not written when the disk was back")
		}
		if r.metric(t, "gridmesh_state_written_bytes_total") == 0 {
			t.Error("no bytes are counted")
		}
	})
}

// A disk that stalls holds up nothing but what it is to keep.
func TestAStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		disk := make(chan struct{})
		r.disk = disk
		r.mustStart(t)
		r.publish(webOnly())
		after(statedir.SaveInterval + statedir.Patience + time.Second)
		r.publish(webAndOther())
		r.kernel.Flush()
		after(repairEvery)
		r.wantServed(t, "repaired beside the stalled write", webFrontend, otherFrontend)
		r.wantHealthy(t, "beside the stalled write", true)
		if n := r.log.Count("the disk of the state directory"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if !r.agent.liveness(time.Now()).Healthy {
			t.Error("the loop does not beat")
		}
		close(disk)
		after(2 * statedir.SaveInterval)
		if st := r.saved(t); st == nil || st.Snapshot.Services.Len() == 0 {
			t.Errorf("kept: %v", st)
		}
	})
}
