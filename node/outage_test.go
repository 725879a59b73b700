package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/hold"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/topology"
)

// restart has a new process follow: after its stop, or after a kill, which
// leaves on disk what was there.
func (r *rig) restart(t *testing.T, kill bool, down time.Duration) {
	t.Helper()
	type file struct {
		data []byte
		at   time.Time
	}
	before := map[string]file{}
	for _, name := range []string{"outage", "contact", "state"} {
		path := filepath.Join(r.cfg.StateDir, name)
		if data, err := os.ReadFile(path); err == nil {
			info, _ := os.Stat(path)
			before[path] = file{data, info.ModTime()}
		} else {
			before[path] = file{}
		}
	}
	r.stop()
	for path, f := range before {
		switch {
		case !kill:
		case f.data == nil:
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				must(t, err)
			}
		default:
			must(t, os.WriteFile(path, f.data, 0o600))
			must(t, os.Chtimes(path, f.at, f.at))
		}
	}
	after(down)
	r.again()
	r.mustStart(t)
}

func (r *rig) exists(name string) bool {
	_, err := os.Stat(filepath.Join(r.cfg.StateDir, name))
	return err == nil
}

// An agent that begins in an outage knows from the one before that it is one,
// however that ended, and at whatever moment.
func TestARestartInsideAnOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		kill             bool
		cut, down, after time.Duration // before its end; until the next begins; from then to the heal
	}{
		"at once":              {false, 0, time.Second, time.Minute},
		"at once, killed":      {true, 0, time.Second, time.Minute},
		"after 10 s":           {false, 10 * time.Second, time.Second, time.Minute},
		"after 10 s, killed":   {true, 10 * time.Second, time.Second, time.Minute},
		"after 19 s, killed":   {true, 19 * time.Second, 0, 10 * time.Minute},
		"after 21 s, killed":   {true, outage.After + time.Second, 0, time.Minute},
		"away for a while":     {true, 10 * time.Second, 3 * time.Minute, time.Minute},
		"shortly before heal":  {true, 10 * time.Second, 40 * time.Second, outage.FirstWord + time.Second},
		"a long outage, twice": {true, time.Hour, time.Minute, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				after(statedir.SaveInterval + contactEvery)
				r.cut(tc.cut)
				r.restart(t, tc.kill, tc.down)
				r.restart(t, tc.kill, 0) // and another one
				after(tc.after)
				r.heal()
				o.Unready("web", onA1, onA2, onB1)
				r.hear(o)
				r.wantAnswer(t, "healed", onA1, onA2)
				r.wantHeld(t, "healed", 2)
			})
		})
	}
}

// A state that nobody followed to just before this process is of any age; and
// where the cloud is there at once, there was no outage.
func TestAnOldStateIsNotHeld(t *testing.T) {
	for name, tc := range map[string]struct{ down, silent time.Duration }{
		"down for long":            {outage.VouchFor + time.Minute, time.Hour},
		"down for days":            {50 * time.Hour, time.Minute},
		"an update that took long": {4 * time.Minute, outage.FirstWord - time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				after(statedir.SaveInterval + contactEvery)
				r.cut(0)
				r.restart(t, false, tc.down)
				after(tc.silent)
				r.heal()
				o.Unready("web", onA2)
				r.hear(o)
				r.wantAnswer(t, "healed", onA1)
				r.wantHeld(t, "healed", 0)
				if r.exists("outage") {
					t.Error("an outage is recorded")
				}
			})
		})
	}
}

// Who never had a whole snapshot vouches for none: an agent that hears of the
// cloud and gets no lists knows nothing of the age of its state.
func TestContactAloneVouchesForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		after(statedir.SaveInterval)
		r.restart(t, false, 50*time.Hour)
		after(10 * time.Minute) // the API server answers, and that is all
		r.cut(10 * time.Minute)
		r.heal()
		o.Unready("web", onA2)
		r.hear(o)
		r.wantAnswer(t, "healed", onA1)
	})
}

// A pod that was deleted is not held for ever, on a link that flaps or by an
// agent that is restarted again and again.
func TestNothingIsHeldForEver(t *testing.T) {
	for name, tc := range map[string]struct {
		up, down time.Duration
		kill     bool
		most     time.Duration // of contact
	}{
		"flaps":                    {up: 30 * time.Second, down: 25 * time.Second, most: hold.Longest},
		"flaps slowly":             {up: 85 * time.Second, down: 10 * time.Minute, most: hold.Longest},
		"restarts":                 {up: 35 * time.Second, most: hold.Bound},
		"dies":                     {up: 35 * time.Second, kill: true, most: hold.Bound},
		"dies all the time":        {up: 4 * time.Second, kill: true, most: hold.Bound},
		"dies, and the link flaps": {up: 25 * time.Second, down: time.Minute, kill: true, most: hold.Longest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				after(statedir.SaveInterval)
				r.cut(time.Minute)
				r.heal()
				o.Gone("web", onA2)
				r.hear(o)
				r.wantAnswer(t, "healed", onA1, onA2)
				for in := time.Duration(0); r.agent.status().Held != nil; in += tc.up {
					if in > tc.most*5/4+tc.up { // the last seconds before a cut are not heard of
						t.Fatalf("held for %s of contact", in)
					}
					for left := tc.up; left > 0; left -= 5 * time.Second {
						r.source.Contacted(time.Now())
						after(min(left, 5*time.Second))
					}
					if r.agent.status().Held == nil {
						if in+tc.up < tc.most-tc.up-outage.RecordEvery {
							t.Errorf("held for %s of contact only", in+tc.up)
						}
						break
					}
					if tc.down > 0 {
						r.cut(tc.down)
					}
					if tc.kill || tc.down == 0 {
						r.restart(t, tc.kill, 0)
					}
					r.heal()
					r.hear(o)
				}
				r.wantAnswer(t, "at last", onA1)
			})
		})
	}
}

// A disk that stalls holds up no loop: an outage that it does not take is one
// all the same, and is noted when it does.
func TestAStalledDiskInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		disk := make(chan struct{})
		r.disk, r.api = disk, &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.mustStart(t)
		o := unitWeb()
		r.hear(o)
		r.cut(time.Minute)
		r.kernel.Flush()
		after(repairEvery)
		r.wantServed(t, "repaired beside the stalled note", webFrontend)
		if !r.agent.liveness(time.Now()).Healthy {
			t.Error("the loop does not beat")
		}
		if n := r.log.Count("does not take a note of the outage"); n != 1 {
			t.Errorf("said %d times", n)
		}
		r.heal()
		o.Unready("web", onA1, onA2)
		r.hear(o)
		r.wantAnswer(t, "healed", onA1, onA2)
		r.cut(time.Minute)
		close(disk)
		after(2 * lookEvery)
		if noted, _ := (statedir.Notebook{Dir: r.cfg.StateDir}).Read(); !noted.Recorded || noted.Record.Holding || len(noted.Record.Past.Held) != 2 {
			t.Errorf("noted: %+v; want the second outage", noted)
		}
	})
}

// At its end an agent waits for a stalled disk as long as for the state, and no
// longer.
func TestAStalledDiskAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		disk := make(chan struct{})
		r.disk, r.api = disk, &nodetest.API{}
		r.mustStart(t)
		r.hear(unitWeb())
		r.cut(time.Minute)
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > statedir.Patience+time.Second {
			t.Errorf("waited for %s", took)
		}
		close(disk)
		synctest.Wait()
	})
}

// A selector that was changed while the cloud was away is a command, and so it
// is for an agent that begins then.
func TestAChangedSelectorIsFollowed(t *testing.T) {
	for name, again := range map[string]bool{"the same process": false, "a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				set := func(selector uint64) {
					entry, _ := o.Snapshot().Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"})
					s := *entry.Service
					s.Selector = selector
					o.Builder().SetService(&s)
				}
				set(1)
				r.hear(o)
				after(statedir.SaveInterval)
				r.cut(time.Minute)
				if again {
					r.restart(t, true, 0)
				}
				r.heal()
				set(2)
				o.Unready("web", onA1)
				r.hear(o)
				r.wantAnswer(t, "healed", onA2)
				r.wantHeld(t, "healed", 0)
			})
		})
	}
}
