package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/hold"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// setClock makes what is noted look as if the clock of the node had been set since.
func (r *rig) setClock(t *testing.T, by time.Duration) {
	t.Helper()
	in := func(name string) string { return filepath.Join(r.cfg.StateDir, name) }
	if data, err := os.ReadFile(in("outage")); err == nil {
		o := outage.DecodeRecord(data)
		o.Since, o.LastContact = o.Since.Add(-by), o.LastContact.Add(-by)
		must(t, os.WriteFile(in("outage"), o.Encode(), 0o600))
	}
	info, err := os.Stat(in("contact"))
	must(t, err)
	at := info.ModTime().Add(-by)
	must(t, os.Chtimes(in("contact"), at, at))
}

// A clock that is set between two processes, in an outage or in the hold after it, drops
// nothing that is held, and prolongs it by one hold at most for each.
func TestAClockThatIsSet(t *testing.T) {
	for name, by := range map[string]time.Duration{
		"ahead": time.Hour, "back": -time.Hour, "years ahead": 5 * 365 * 24 * time.Hour, "years back": -5 * 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				after(statedir.SaveInterval)
				again := func() {
					r.stop()
					r.setClock(t, by)
					r.again()
					r.mustStart(t)
				}
				r.cut(2 * time.Minute)
				again()
				after(10 * time.Second)
				r.heal()
				after(5 * time.Second)
				o.Unready("web", onA1, onA2, onB1)
				r.hear(o)
				r.wantAnswer(t, "in the outage", onA1, onA2)
				after(2 * statedir.SaveInterval) // what is held is the last good state by now
				again()
				r.hear(o)
				r.wantAnswer(t, "in the hold", onA1, onA2)
				for range hold.Bound/time.Second + 10 {
					r.contact()
					after(time.Second)
				}
				r.wantAnswer(t, "let go")
				if r.exists("outage") {
					t.Error("the outage is noted for ever")
				}
			})
		})
	}
}

// How old a contact is the status says by the clock as it is set now: a program that
// reads it has no other.
func TestTheStatusFollowsTheClock(t *testing.T) {
	const ago = 30 * time.Minute
	for name, set := range map[string]time.Duration{"ahead": time.Hour, "back": -time.Hour, "not": 0} {
		r := newRig(t)
		r.api = &nodetest.API{Away: errBroken}
		var err error
		r.agent, err = New(r.cfg, r.parts())
		must(t, err)
		r.source.Contacted(nodetest.Moment(time.Now(), -ago, -ago-set))
		status := r.agent.status()
		for what, at := range map[string]time.Time{"source": status.LastContact, "API server": status.APIServer.LastContact, "metric": time.Unix(int64(r.metric(t, "gridmesh_last_contact_timestamp_seconds")), 0)} {
			if age := time.Since(at.Round(0)); age < ago || age > ago+time.Minute {
				t.Errorf("set %s: by the %s the last contact is %s ago", name, what, age)
			}
		}
	}
}

// A node that was suspended, or was a VM that was paused, did not hear the outage: no
// clock that it measures silence by went on. What the cloud says then is held as after
// any other, whatever comes first: the wake, or the word.
func TestANodeThatSlept(t *testing.T) {
	const long, short = 10 * time.Minute, 10 * time.Second
	for name, tc := range map[string]struct {
		asleep, set time.Duration
		times       int
		late        time.Duration // until the cloud is heard again
		held        bool
	}{
		"suspended":                           {asleep: long, times: 1, held: true},
		"suspended, and not heard at once":    {asleep: long, times: 1, late: 15 * time.Second, held: true},
		"suspended now and then":              {asleep: short, times: 3, held: true},
		"for part of an outage":               {asleep: short, times: 1, late: 15 * time.Second, held: true},
		"for a moment":                        {asleep: short, times: 1},
		"paused, and set right at once":       {set: long, times: 1, held: true},
		"paused, and set right while silent":  {set: long, times: 1, late: 15 * time.Second, held: true},
		"set a moment ahead":                  {set: short, times: 1},
		"set back":                            {set: -long, times: 1},
		"suspended, and set right afterwards": {asleep: long, set: -long / 2, times: 1, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				after(time.Minute)
				r.contact()
				after(lookEvery)
				for range tc.times {
					r.asleep.Add(int64(tc.asleep))
					r.set.Add(int64(tc.set))
					if tc.times > 1 {
						after(lookEvery)
					}
				}
				r.cut(tc.late)
				r.heal()
				o.Unready("web", onA1, onA2, onB1)
				r.hear(o)
				if !tc.held {
					r.wantAnswer(t, "awake all along")
					return
				}
				r.wantAnswer(t, "awake", onA1, onA2)
				r.wantHeld(t, "awake", 2)
				for range (hold.Bound + contactEvery) / time.Second {
					r.contact()
					after(time.Second)
				}
				r.wantAnswer(t, "let go")
				r.wantHeld(t, "let go", 0)
			})
		})
	}
}

// A sign of life from just before a sleep does not end the silence of that sleep: the first
// after it does, and what the cloud says then is held.
func TestAContactJustBeforeASleep(t *testing.T) {
	for name, set := range map[string]time.Duration{"suspended": 0, "and set back by some": -20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				after(statedir.SaveInterval + contactEvery)
				r.cut(lookEvery / 2) // between two looks
				r.contact()
				r.asleep.Add(int64(time.Hour))
				r.set.Add(int64(set))
				after(2 * lookEvery)
				if n := r.log.Count("the API server is silent"); n != 1 || !r.exists("outage") {
					t.Errorf("awake: the silence is said %d times, and noted: %v", n, r.exists("outage"))
				}
				after(hold.Bound) // which begins with a contact
				r.heal()
				o.Unready("web", onA1, onA2, onB1)
				r.hear(o)
				r.wantAnswer(t, "heard again", onA1, onA2)
				r.wantHeld(t, "heard again", 2)
			})
		})
	}
}

// How long ago the last contact was has the time in it that the node slept since, and none
// that it slept before: of this process and of the one before, right after the wake and later.
func TestTheSilenceHasTheSleepInIt(t *testing.T) {
	const night, ago = 8 * time.Hour, 5 * time.Second
	for name, tc := range map[string]struct {
		restart bool
		shift   time.Duration // of the contact, since a look
		set     time.Duration
	}{
		"suspended": {}, "suspended, and a restart before": {restart: true}, "just after a look": {shift: time.Millisecond}, "just before one": {shift: lookEvery - time.Millisecond},
		"suspended, and set back": {set: -time.Hour}, "suspended, and set ahead": {set: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := online(t)
				want := func(when string, ago time.Duration) {
					t.Helper()
					status := r.agent.status()
					now := r.clocks().Shown
					for what, at := range map[string]time.Time{"source": status.LastContact, "API server": status.APIServer.LastContact, "metric": time.Unix(int64(r.metric(t, "gridmesh_last_contact_timestamp_seconds")), 0)} {
						if age := now.Sub(at); age < ago || age > ago+time.Second {
							t.Errorf("%s: by the %s the last contact is %s ago, want %s", when, what, age, ago)
						}
					}
				}
				r.asleep.Add(int64(night))
				after(statedir.SaveInterval)
				r.cut(tc.shift)
				r.contact()
				want("at once", 0)
				if tc.restart {
					r.restart(t, false, 0)
				}
				after(ago)
				ago := ago
				if tc.restart { // the one before noted an older one
					if ago = r.clocks().Shown.Sub(r.agent.status().LastContact); ago > time.Minute {
						t.Errorf("after the restart the last contact is %s ago", ago)
					}
				}
				want("before the sleep", ago)
				r.asleep.Add(int64(night))
				r.set.Add(int64(tc.set))
				want("awake", night+ago)
				after(2 * lookEvery)
				want("later", night+ago+2*lookEvery)
				r.asleep.Add(int64(night))
				after(2 * lookEvery)
				want("after another", 2*night+ago+4*lookEvery)
				r.contact()
				want("heard again", 0)
			})
		})
	}
}

// A node that is suspended again and again, or whose clock others set ahead all the time,
// holds nothing for ever.
func TestWhoSleepsOftenHoldsNothingForEver(t *testing.T) {
	for name, asleep := range map[string]bool{"suspended": true, "set ahead": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				began, gone := time.Now(), false
				for time.Since(began) < 2*hold.Longest && (!gone || r.agent.status().Held != nil) {
					if asleep {
						r.asleep.Add(int64(time.Hour))
					} else {
						r.set.Add(int64(time.Hour))
					}
					after(lookEvery)
					if !gone {
						o.Gone("web", onA2)
						gone = true
					}
					r.hear(o)
					for range 30 {
						r.contact()
						after(time.Second)
					}
				}
				if held := time.Since(began); held > hold.Longest+time.Minute || held < hold.Longest-time.Minute {
					t.Errorf("held for %s, want %s", held, hold.Longest)
				}
				r.wantAnswer(t, "at last", onA1)
			})
		})
	}
}

// The node's own clocks: read one after another, by a process that nobody stops, they
// tell of no sleep; and the kernel's count since the boot is read.
func TestTheNodesClocks(t *testing.T) {
	before := readClocks()
	if before.Booted <= 0 || before.Shown != before.Shown.Round(0) || !strings.Contains(before.Now.String(), " m=") {
		t.Errorf("read %+v", before)
	}
	if now := readClocks(); now.Booted < before.Booted || now.Now.Before(before.Now) {
		t.Errorf("read %+v after %+v", now, before)
	}
}
