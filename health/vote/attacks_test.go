package vote

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A node leaves the unit while what others said of it is new.
func TestANodeLeaves(t *testing.T) {
	u := leading(20)
	u.round(nil, allBut("", None))
	gone := u.rank(7)
	u.step(Members{NewView(without(u.view, gone), u.cfg.Observers)})
	for _, q := range append(u.step(Checked{}).Ask, u.round([]string{gone}, allBut("", None)).Ask...) {
		t.Errorf("asks about %q", q.Targets)
	}
	if u.heard[gone] != nil {
		t.Error("what it said itself is kept")
	}
}

// A node comes again under its name: what was said and decided of the other one is no word
// of it.
func TestANodeComesAgain(t *testing.T) {
	u := leading(5)
	name := u.rank(3)
	u.verdicts[name] = verdict{Answer: No, proof: Proof{0, 4, 5, true}, at: u.now}
	u.dead[name], u.told = true, u.now
	u.step(Cloud{name, false, No, false, "", time.Time{}})
	list := append(without(u.view, name), Member{name, "another"})
	u.step(Members{NewView(list, u.cfg.Observers)})
	if u.isDead(u.now, name) || u.cloud[name] != (Cloud{}) {
		t.Errorf("it is dead: %v; the cloud's word of it is %+v", u.isDead(u.now, name), u.cloud[name])
	}
	for _, w := range u.round(nil, allBut("", None)).Write {
		if w.Node == name && (w.UID != "another" || w.Verdict != Yes) {
			t.Errorf("writes %+v", w)
		}
	}
}

// repeated is what one says a hundred times.
func repeated(node string, a Answer) (list []Result) {
	for range 100 {
		list = append(list, Result{node, a})
	}
	return list
}

// Who repeats itself in an answer is counted once.
func TestOneAnswerOfEach(t *testing.T) {
	for name, tc := range map[string]struct{ others, liar, want Answer }{
		"a dead node is kept alive":     {No, Yes, No},
		"a living node is denied":       {Abstain, No, None},
		"a node is neither one":         {Abstain, Yes, None},
		"the last word is not the word": {No, Abstain, No},
	} {
		t.Run(name, func(t *testing.T) {
			u := leading(20)
			victim, liar := u.rank(5), u.rank(9)
			var writes []Write
			for range 4 {
				out := u.round([]string{victim}, allBut(victim, tc.others))
				for _, q := range out.Ask {
					for _, from := range u.view.Names() {
						results := []Result{{victim, tc.others}}
						if from == liar {
							results = repeated(victim, tc.liar)
						}
						if from != victim {
							writes = append(writes, u.step(Answered{Question: q.Number, From: from, Results: results}).Write...)
						}
					}
				}
				u.now = u.now.Add(u.cfg.AskFor)
				writes = append(writes, u.step(Tick{}).Write...)
			}
			got := None
			for _, w := range writes {
				if w.Node == victim && w.Proof.Exact {
					got = w.Verdict
				}
			}
			if got != tc.want {
				t.Errorf("%s, want %s: %+v", got, tc.want, writes)
			}
		})
	}
}

// Who repeats itself in a report vouches once: a dead node is asked about.
func TestOneVoucherOfEach(t *testing.T) {
	u := leading(50)
	victim := u.rank(5)
	liar := slices.DeleteFunc(u.view.Observers(victim), func(name string) bool { return name == u.cfg.Self })[0]
	asked := 0
	for range 6 {
		out := u.round([]string{victim}, func(from, of string) []Result {
			if from == liar && of == victim {
				return repeated(of, Yes)
			}
			return allBut(victim, No)(from, of)
		})
		asked += len(out.Ask)
	}
	if asked == 0 {
		t.Error("a minute after its death nobody was asked about it")
	}
}

// Who says that it leads, alone, is not believed: neither that it does where another is
// known to, nor who is dead.
func TestALiarDoesNotLead(t *testing.T) {
	for name, known := range map[string]bool{"another is known to lead": true, "nobody is known to lead": false} {
		t.Run(name, func(t *testing.T) {
			u := of(20, 10)
			liar, leader := u.rank(19), u.rank(3)
			lie := Delivered{liar, true, Reply{Leads: true, Dead: []string{u.rank(15)}}}
			if known {
				u.step(Delivered{u.rank(0), true, Reply{Leader: leader}})
			}
			for range 5 {
				u.step(lie)
				if got := u.Dead(u.now); len(got) > 0 {
					t.Fatalf("dead: %q", got)
				}
				u.round(nil, allBut("", None))
				if known {
					u.step(Delivered{u.rank(0), true, Reply{Leader: leader, Age: time.Second}})
				}
			}
			u.step(Delivered{u.rank(0), true, Reply{Leader: leader}})
			u.step(lie)
			u.step(Delivered{leader, true, Reply{Leads: true, Dead: []string{u.rank(14)}}})
			if got := u.Dead(u.now); !slices.Equal(got, []string{u.rank(14)}) || u.leader != leader {
				t.Errorf("dead: %q, and %s leads", got, u.leader)
			}
		})
	}
}

// The leader's word is believed where another one names it, where it ranks first of those
// that take reports, and where there is nobody else to name it. It ends when it says so, and
// when it takes no report.
func TestWhoIsBelieved(t *testing.T) {
	u := of(5, 2)
	dead := []string{u.rank(4)}
	word := func(rank int) Delivered { return Delivered{u.rank(rank), true, Reply{Leads: true, Dead: dead}} }
	believed := func(why string, want bool) {
		t.Helper()
		if got := u.Dead(u.now); slices.Equal(got, dead) != want {
			t.Errorf("%s: dead are %q", why, got)
		}
		u.now = u.now.Add(2 * time.Minute) // it is forgotten
	}
	u.step(word(0))
	believed("it ranks first", true)
	u.step(word(1))
	believed("it does not", false)
	silent := func(rank int) {
		u.step(Delivered{To: u.rank(rank)})
		u.step(Delivered{To: u.rank(rank)})
	}
	silent(0)
	u.step(word(1))
	believed("the first takes no report", true)
	u.step(Delivered{u.rank(1), true, Reply{Leader: u.rank(3)}})
	u.step(word(3))
	believed("the first names it", true)
	u.step(Delivered{u.rank(3), true, Reply{}})
	u.step(word(3))
	believed("it ended, and nobody names it since", false)
	silent(1)
	silent(4)
	u.step(word(3))
	believed("there is nobody else to name it", true)
}

// Nobody has this node believe that it is dead itself, or more than half of the unit.
func TestWhatIsNeverBelieved(t *testing.T) {
	for name, tc := range map[string]struct{ from, want int }{"half": {10, 9}, "more than half": {9, 0}} {
		t.Run(name, func(t *testing.T) {
			u := of(20, 10)
			dead := u.view.Ranked()[tc.from:] // it is one of them
			u.step(Delivered{u.rank(0), true, Reply{Leads: true, Dead: append(slices.Clone(dead), dead...)}})
			if got := u.Dead(u.now); len(got) != tc.want || slices.Contains(got, u.cfg.Self) {
				t.Errorf("dead are %q", got)
			}
		})
	}
}

// The same members again end no question; others do, and it is asked again a round later.
func TestMembersWhileItIsAsked(t *testing.T) {
	for name, others := range map[string]bool{"the same": false, "others": true} {
		t.Run(name, func(t *testing.T) {
			u := leading(20)
			victim := u.rank(5)
			u.round([]string{victim}, allBut(victim, No))
			q := u.round([]string{victim}, allBut(victim, No)).Ask[0]
			view := NewView(members(20), u.cfg.Observers)
			if others {
				view = NewView(members(21), u.cfg.Observers)
			}
			u.step(Members{view})
			answer := func() (writes []Write) {
				for _, from := range view.Names() {
					if from != victim {
						writes = append(writes, u.step(Answered{Question: q.Number, From: from, Results: []Result{{victim, No}}}).Write...)
					}
				}
				u.now = u.now.Add(u.cfg.AskFor)
				return append(writes, u.step(Tick{}).Write...)
			}
			if got := len(answer()); got != map[bool]int{false: 1, true: 0}[others] {
				t.Errorf("%d writes", got)
			}
			if !others {
				return
			}
			again := u.round([]string{victim}, allBut(victim, No)).Ask
			if len(again) == 0 {
				t.Fatal("it is not asked again in the next round")
			}
			q = again[0]
			if got := answer(); len(got) != 1 || got[0].Verdict != No {
				t.Errorf("writes %+v", got)
			}
		})
	}
}

// What strangers fill takes no room.
func TestWhatIsKept(t *testing.T) {
	u := leading(20)
	for _, from := range u.view.Names()[:3] {
		results := make([]Result, 100_000)
		for i := range results {
			results[i].Node = u.view.Names()[i%20]
		}
		u.step(Reported{From: from, Results: results})
		if h := u.heard[from]; cap(h.results) > 20 {
			t.Errorf("room for %d results is kept", cap(h.results))
		}
	}
	var strangers []string
	for i := range 2 * early {
		strangers = append(strangers, fmt.Sprint("stranger", i))
		u.step(Cloud{Node: strangers[i]})
	}
	u.step(Delivered{u.rank(1), true, Reply{Ups: strangers, Leads: true, Dead: strangers}})
	if len(u.cloud) > u.view.Len() || len(u.ups)+len(u.dead) > 0 {
		t.Errorf("%d, %d and %d strangers are kept", len(u.cloud), len(u.ups), len(u.dead))
	}
	m := New(Default("a"))
	for _, name := range append([]string{"a"}, strangers...) {
		m.Step(began, Cloud{name, true, Yes, false, "", time.Time{}})
	}
	if len(m.cloud) != early {
		t.Errorf("%d names are kept before it is known who is in the unit, want %d", len(m.cloud), early)
	}
	m.Step(began, Members{NewView([]Member{{"a", "1"}, {"b", "2"}}, 10)})
	if len(m.cloud) != 1 || m.cloud["a"].Verdict != Yes {
		t.Errorf("the cloud's word is %v", m.cloud)
	}
}

// After a restart a question has another number: an answer that comes late counts for none.
func TestAnotherNumberAfterARestart(t *testing.T) {
	numbers := map[int64]bool{}
	for restart := range 3 {
		u := leading(20)
		u.now = u.now.Add(time.Duration(restart) * time.Minute)
		u.step(Tick{})
		victim := u.rank(5)
		for range 4 {
			for _, q := range u.round([]string{victim}, allBut(victim, No)).Ask {
				if numbers[q.Number] {
					t.Errorf("two questions have number %d", q.Number)
				}
				numbers[q.Number] = true
			}
		}
	}
}
