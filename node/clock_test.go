package node

import (
	"os"
	"path/filepath"
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
					r.source.Contacted(time.Now())
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
