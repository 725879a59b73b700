package outage

import (
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
)

// What is on disk has the time of the clock that is shown. Once a process has read it, to
// set that clock makes no contact with the cloud older, newer or unheard.
func TestTheClockIsSetAfterAStart(t *testing.T) {
	begun := time.Now()
	for name, step := range map[string]time.Duration{"ahead": time.Hour, "back": -time.Hour, "not": 0} {
		t.Run(name, func(t *testing.T) {
			at := func(later time.Duration) time.Time { return nodetest.Moment(begun, later, later+step) }
			u := NewUplink(Noted{Contact: begun.Add(-time.Second).Round(0), Boot: "b"}, "b", begun)
			if !u.Vouched || u.Silent(at(After-2*time.Second)) || !u.Silent(at(After)) {
				t.Errorf("vouched for: %v; silent before %s: %v, then: %v", u.Vouched, After, u.Silent(at(After-2*time.Second)), u.Silent(at(After)))
			}
			u.Contacted(at(10 * time.Second))
			if u.Away || !u.LastContact.Equal(at(10*time.Second)) {
				t.Errorf("away %v, last contact %s", u.Away, u.LastContact)
			}
			if got := at(time.Minute).Sub(u.Known); got != time.Minute+time.Second {
				t.Errorf("what was known is %s old", got)
			}
		})
	}
}

// An outage that is noted for later began by now at the latest.
func TestAnOutageThatIsYetToCome(t *testing.T) {
	now := time.Now()
	u := NewUplink(Noted{Recorded: true, Record: Record{Since: now.Add(time.Hour)}}, "b", now)
	if u.Since.After(now) {
		t.Errorf("it began %s from now", u.Since.Sub(now))
	}
	if u = NewUplink(Noted{Recorded: true, Record: Record{Since: now.Add(-time.Hour)}}, "b", now); now.Sub(u.Since) != time.Hour {
		t.Errorf("it began %s ago", now.Sub(u.Since))
	}
}
