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

// What the clocks tell of a sleep, and what they do not.
func TestSlept(t *testing.T) {
	now := time.Now()
	at := Clocks{Now: now, Shown: now.Round(0), Booted: time.Hour}
	for name, tc := range map[string]struct{ awake, shown, booted, want time.Duration }{
		"awake":                       {time.Second, time.Second, time.Second, 0},
		"read with a delay":           {time.Second, time.Second, 1900 * time.Millisecond, 0},
		"suspended":                   {time.Second, time.Minute, time.Minute, 59 * time.Second},
		"suspended, and set back":     {time.Second, time.Second, time.Minute, 59 * time.Second},
		"paused, and then set":        {time.Second, time.Minute, time.Second, 59 * time.Second},
		"set ahead by a little":       {time.Second, After, time.Second, 0},
		"suspended for a little":      {time.Second, time.Second, 3 * time.Second, 2 * time.Second},
		"set back":                    {time.Second, -time.Minute, time.Second, 0},
		"set right by a moment":       {time.Second, 1900 * time.Millisecond, time.Second, 0},
		"nobody knows since the boot": {time.Second, time.Minute, -time.Hour, 59 * time.Second},
	} {
		later := Clocks{Now: at.Now.Add(tc.awake), Shown: at.Shown.Add(tc.shown), Booted: at.Booted + tc.booted}
		if got := later.Slept(at); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// A silence has both: the time that was heard, and the time that was slept, until the next
// contact, also where what the process before noted comes later.
func TestASilenceThatWasSlept(t *testing.T) {
	begun := time.Now()
	at := begun.Add
	u := NewUplink(Noted{}, "b", begun)
	u.Contacted(at(10 * time.Second))
	u.Slept(After - 2*time.Second)
	if u.Silent(at(11 * time.Second)) {
		t.Error("silent too early")
	}
	u.Learn(Noted{Contact: begun.Add(-time.Second), Boot: "b"})
	if !u.Silent(at(12 * time.Second)) {
		t.Error("what was slept is forgotten")
	}
	u.Contacted(at(12 * time.Second))
	if !u.Away || !u.Back || u.Silent(at(13*time.Second)) {
		t.Errorf("away %v, back %v after a contact", u.Away, u.Back)
	}
	u.End()
	if u.Contacted(at(14 * time.Second)); u.Away {
		t.Error("one sleep is two outages")
	}
	u.Slept(1<<63 - 1)
	if u.Slept(1<<63 - 1); !u.Silent(at(15 * time.Second)) {
		t.Error("no sleep is too long")
	}
	fresh := NewUplink(Noted{}, "b", begun) // and before the first word, too
	if fresh.Slept(time.Minute); !fresh.Silent(at(time.Second)) {
		t.Error("a process that slept before the first word")
	}
}
