package vote

import (
	"slices"
	"testing"
	"time"
)

// no is what all say of some.
func no(victims []string) func(from, of string) []Result {
	return func(_, of string) []Result {
		if slices.Contains(victims, of) {
			return []Result{{of, No}}
		}
		return []Result{{of, Yes}}
	}
}

// In a unit of a thousand more than a hundred nodes die at once: no more is asked at a time than can
// be sent, and the rest once that is answered.
func TestManyOfALargeUnitDie(t *testing.T) {
	u := leading(1000)
	var victims []string
	for i := range 101 {
		victims = append(victims, u.rank(100+i))
	}
	var asked []string
	for range 4 {
		out := u.round(victims, no(victims))
		for range 3 {
			if n := len(u.asking) * 1000; n > u.cfg.AtOnce {
				t.Fatalf("%d answers are waited for at once", n)
			}
			for _, q := range out.Ask {
				asked = append(asked, q.Targets...)
			}
			u.now = u.now.Add(u.cfg.AskFor - time.Second)
			for _, q := range out.Ask {
				for _, from := range u.view.Names() {
					if !slices.Contains(victims, from) {
						u.step(Answered{Question: q.Number, From: from})
					}
				}
			}
			u.now = u.now.Add(time.Second)
			out = u.step(Tick{})
		}
		if !u.May(u.now) {
			t.Fatal("it may hold the Lease no more")
		}
	}
	if slices.Sort(asked); len(slices.Compact(asked)) != len(victims) {
		t.Errorf("asked about %d nodes of %d", len(asked), len(victims))
	}
}

// Where there is no room for all, each is asked about in turn, and who says just now that it has no
// uplink before the rest.
func TestQuestionsWaitForRoom(t *testing.T) {
	u := leading(20)
	u.cfg.AtOnce, u.cfg.Batch = 20, 3
	victims := []string{u.rank(2), u.rank(5), u.rank(8), u.rank(11), u.rank(13), u.rank(16), u.rank(18)}
	slices.Sort(victims)
	var got [][]string
	take := func(out Effects) {
		for _, q := range out.Ask {
			got = append(got, q.Targets)
		}
	}
	for range u.cfg.Suspicion {
		take(u.round(victims, no(victims)))
	}
	dark := u.rank(4)
	take(u.step(Reported{From: dark, Hears: true}))
	for range 3 {
		u.now = u.now.Add(u.cfg.AskFor)
		take(u.step(Tick{}))
	}
	want := [][]string{victims[:3], {dark, victims[3], victims[4]}, victims[5:]}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("asks about %q, want %q", got, want)
	}
}

// Who was not asked, for this node has too much under way, says nothing of whether this one is heard.
func TestQuestionsThatWereNotSent(t *testing.T) {
	for name, tc := range map[string]struct{ unsent, may bool }{"not sent": {true, true}, "not answered": {false, false}} {
		t.Run(name, func(t *testing.T) {
			u := leading(20)
			victim := u.rank(5)
			for range 4 {
				for _, q := range u.round([]string{victim}, allBut(victim, No)).Ask {
					for _, from := range u.view.Names() {
						u.step(Answered{Question: q.Number, From: from, Failed: from != u.cfg.Self, Unsent: tc.unsent && from != u.cfg.Self})
					}
				}
			}
			if got := u.May(u.now); got != tc.may {
				t.Errorf("it may hold the Lease: %v, want %v", got, tc.may)
			}
		})
	}
}

// A leader that stood still while it was answered decides nothing by that: who was dead then may be
// back. It asks anew; one that was only a little late does decide.
func TestALeaderThatStoodStill(t *testing.T) {
	for late, decides := range map[time.Duration]bool{time.Second: true, 15 * time.Second: false} {
		u := leading(5)
		victim := u.rank(3)
		var asked []Question
		for len(asked) == 0 {
			asked = u.round([]string{victim}, allBut(victim, No)).Ask
		}
		for _, from := range u.view.Names() {
			if from != victim {
				u.step(Answered{Question: asked[0].Number, From: from, Results: []Result{{victim, No}}})
			}
		}
		u.now = u.now.Add(u.cfg.AskFor + late)
		if out := u.step(Tick{}); (len(out.Write) > 0) != decides {
			t.Errorf("%s late it writes %+v", late, out.Write)
		}
		if decides {
			continue
		}
		anew := false
		for range u.cfg.Suspicion + 4 { // it leads anew once it hears the others again
			u.round([]string{victim}, allBut(victim, No))
			anew = anew || u.isAsked(victim)
		}
		if !anew {
			t.Error("it does not ask anew")
		}
	}
}
