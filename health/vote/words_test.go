package vote

import (
	"testing"
	"time"
)

// For how long a node is well by what others reach at its address alone does not begin anew with another
// leader, for all are told when the cloud lost it; nor does it end with what it said long before that.
func TestAnAddressIsAnothersToTheNextLeader(t *testing.T) {
	for name, tc := range map[string]struct {
		spoke   bool          // the node, to the one that leads later, an hour before
		lost    time.Duration // before it leads
		want    time.Duration // for how long it is well from then
		speaks  bool          // and answers
		forever bool
		anew    bool // this one begins when it leads, and is told since when the node is lost
	}{
		"lost long before":                               {lost: 20 * time.Minute, want: time.Minute},
		"lost just before":                               {lost: time.Minute, want: 9 * time.Minute},
		"lost after it spoke":                            {spoke: true, lost: time.Minute, want: 9 * time.Minute},
		"lost long before, and it began just now":        {lost: 20 * time.Minute, anew: true, want: time.Minute},
		"lost before, and it began just now":             {lost: 5 * time.Minute, anew: true, want: 5 * time.Minute},
		"lost later, by a clock that is off":             {lost: -time.Hour, anew: true, want: 10 * time.Minute},
		"it spoke just before, and was lost long before": {lost: 20 * time.Minute, anew: true, spoke: true, want: 10 * time.Minute},
		"it spoke to others before":                      {lost: 20 * time.Minute, speaks: true, forever: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := of(20, 0)
			victim := u.rank(5)
			for _, name := range u.view.Names() {
				if name != victim || !tc.anew {
					u.step(Cloud{Node: name, Ready: true, Verdict: Yes})
				}
			}
			if tc.spoke {
				u.step(Reported{From: victim, Up: true})
			}
			if tc.anew {
				u.step(Cloud{Node: victim, Verdict: Yes, Since: u.now.Add(-tc.lost)})
			} else {
				u.now = u.now.Add(time.Hour)
				u.step(Cloud{Node: victim, Verdict: Yes})
				u.now = u.now.Add(tc.lost)
			}
			u.step(Uplink{true})
			u.step(Lease{u.now.Add(time.Hour)})
			since, last := time.Time{}, time.Time{}
			for range 90 {
				out := u.round([]string{victim}, allBut("", None))
				if since.IsZero() && u.leading {
					since = u.now
				}
				for _, q := range out.Ask {
					for _, from := range u.view.Names() {
						answer := Answered{Question: q.Number, From: from, Results: []Result{{victim, Yes}}, Failed: from == victim && !tc.speaks}
						if len(about(u.step(answer).Write, victim)) > 0 {
							last = u.now
						}
					}
				}
			}
			if got := last.Sub(since); tc.forever != (got > 12*time.Minute) || !tc.forever && (got < tc.want-2*time.Minute || got > tc.want+2*time.Minute) {
				t.Errorf("it is said to be well for %s", got)
			}
		})
	}
}
