package outage

import (
	"testing"
	"time"
)

// A sign of life is as old as it is, whatever came between two looks: a sleep before it is
// not in its age, one after it is, and a clock that is set makes it neither older nor newer.
func TestHeard(t *testing.T) {
	const s, h = time.Second, time.Hour
	start := Clocks{Now: time.Now(), Shown: time.Now().Round(0), Booted: h}
	// at is how the clocks stand after so long awake, asleep, and so much set.
	at := func(awake, asleep, set time.Duration) Clocks {
		return Clocks{Now: start.Now.Add(awake), Shown: start.Shown.Add(awake + asleep + set), Booted: start.Booted + awake + asleep}
	}
	for name, tc := range map[string]struct {
		contact Clocks
		looks   []Clocks
		ago     time.Duration
	}{
		"nobody slept":                             {at(5*s, 0, 0), []Clocks{at(6*s, 0, 0), at(20*s, 0, 0)}, 15 * s},
		"before a sleep that is between looks":     {at(5500*time.Millisecond, 0, 0), []Clocks{at(5*s, 0, 0), at(6*s, h, 0)}, h + s/2},
		"after a sleep that is between looks":      {at(5500*time.Millisecond, h, 0), []Clocks{at(5*s, 0, 0), at(6*s, h, 0)}, s / 2},
		"after it, and set back by half meanwhile": {at(5500*time.Millisecond, h, -h/2), []Clocks{at(5*s, 0, 0), at(6*s, h, -h/2)}, s / 2},
		"before it, and set back by more":          {at(5500*time.Millisecond, 0, 0), []Clocks{at(5*s, 0, 0), at(6*s, h, -2*h)}, h + s/2},
		"a sleep long after, and the clock set":    {at(5*s, 0, 0), []Clocks{at(6*s, 0, 0), at(7*s, 2*h, 0), at(8*s, 2*h, h)}, 2*h + 3*s},
		"sleeps long before":                       {at(5*s, 2*h, 0), []Clocks{at(3*s, h, 0), at(4*s, 2*h, 0), at(6*s, 2*h, 0)}, s},
		"of before the first look":                 {at(-5*s, 0, 0), []Clocks{at(0, 0, 0), at(s, h, 0)}, h + 6*s},
	} {
		var heard Heard
		tc.contact.Booted = 0
		for _, look := range tc.looks {
			newest := tc.contact
			if newest.Now.After(look.Now) {
				newest = Clocks{} // there was none yet
			}
			heard = heard.Next(newest, look)
		}
		if last := tc.looks[len(tc.looks)-1]; last.Shown.Sub(heard.Shown()) != tc.ago {
			t.Errorf("%s: %s ago, want %s", name, last.Shown.Sub(heard.Shown()), tc.ago)
		}
	}
	if at := (Heard{}).Next(Clocks{}, start).Shown(); !at.IsZero() {
		t.Errorf("there was none, and it was at %s", at)
	}
	unknown := Clocks{Now: start.Now.Add(10 * s), Shown: start.Shown.Add(10 * s)} // since the boot
	if ago := unknown.Shown.Sub((Heard{}).Next(at(4*s, 0, 0), unknown).Shown()); ago != 6*s {
		t.Errorf("without the time since the boot: %s ago", ago)
	}
}
