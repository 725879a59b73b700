package vote

import "testing"

// die has a node die, and reports whether that is written within a few rounds, in which the unit is asked.
func (u *unit) die(victim string) (written bool) {
	for range 6 {
		out := u.round([]string{victim}, allBut(victim, No))
		for asked := out.Ask; len(asked) > 0; asked = asked[1:] {
			q := asked[0]
			for _, from := range u.view.Names() {
				if from == victim {
					continue
				}
				var results []Result
				for _, name := range q.Targets {
					results = append(results, allBut(victim, No)(from, name)...)
				}
				out := u.step(Answered{Question: q.Number, From: from, Results: results})
				asked = append(asked, out.Ask...)
				for _, w := range out.Write {
					written = written || w.Node == victim && w.Verdict == No
				}
			}
			u.now = u.now.Add(u.cfg.AskFor)
			for _, w := range u.step(Tick{}).Write {
				written = written || w.Node == victim && w.Verdict == No
			}
		}
	}
	return written
}

// Deaths that a member writes which does not lead spend nothing of the unit's budget: a tenth of it would be enough
// to have nobody declared dead.
func TestForgedDeathsSpendNothing(t *testing.T) {
	for by, want := range map[int]bool{0: false, 9: true} { // who leads by its own word, and another one
		u := leading(20)
		for i := range 4 {
			u.step(Cloud{Node: u.rank(12 + i), Ready: true, Verdict: No, By: u.rank(by)})
		}
		if got := u.die(u.rank(5)); got != want {
			t.Errorf("others are dead by the one of rank %d: a death is written: %v, want %v", by, got, want)
		}
	}
}

// A death counts where who leads wrote it, as far as that is known, or is told later, or who led before; and for one
// that begins whoever did.
func TestWhoseDeathsCount(t *testing.T) {
	const self, liar = 10, 19
	u := of(20, self)
	u.step(Uplink{true})
	for _, name := range u.view.Names() {
		u.step(Cloud{Node: name, Ready: true, Verdict: Yes, By: u.rank(1)})
	}
	leads := func(rank int) {
		for _, other := range []int{0, rank} { // another one, and itself
			u.step(Delivered{u.rank(other), true, Reply{Leader: u.rank(rank), Leads: other == rank}})
		}
		u.round(nil, allBut("", None))
	}
	leads(3)
	dies := func(why string, of, by int, want bool) {
		t.Helper()
		u.step(Cloud{Node: u.rank(of), Ready: true, Verdict: No, By: u.rank(by)})
		u.round(nil, allBut("", None))
		if d := u.budget.paid[u.view.member(u.rank(of))]; (d != nil && !d.over) != want {
			t.Errorf("%s: it is counted: %+v, want %v", why, d, want)
		}
	}
	dies("it leads", 11, 3, true)
	dies("another one", 12, liar, false)
	dies("this one", 13, self, true)
	dies("it leads, which is not known yet", 14, 4, false)
	u.step(Delivered{u.rank(3), true, Reply{}})
	leads(4)
	dies("it leads, which is known now", 14, 4, true)
	dies("it led before", 15, 3, true)
	u.step(Delivered{u.rank(4), true, Reply{}})
	leads(5)
	dies("it led long before", 16, 3, false)
	dies("over another one's word", 12, 5, true)

	u = of(20, self)
	u.step(Cloud{Node: u.rank(11), Ready: true, Verdict: No, By: u.rank(liar)})
	if u.budget.paid[u.view.member(u.rank(11))] == nil {
		t.Error("one that begins does not know who led, and counts not all")
	}
}

// Who writes over a death makes no new one of it: else a node that is dead for long would spend the budget for ever.
func TestADeathIsNoNewer(t *testing.T) {
	u := of(20, 10)
	u.step(Uplink{true})
	leader, liar, victim := u.rank(3), u.rank(19), u.rank(11)
	for _, from := range []string{u.rank(0), leader} {
		u.step(Delivered{from, true, Reply{Leader: leader, Leads: from == leader}})
	}
	u.round(nil, allBut("", None))
	u.step(Cloud{Node: victim, Verdict: No, By: leader})
	at := u.now
	for _, over := range []Answer{No, Yes, None} {
		u.round(nil, allBut("", None))
		u.step(Cloud{Node: victim, Verdict: over, By: liar})
		u.round(nil, allBut("", None))
		u.step(Cloud{Node: victim, Verdict: No, By: leader})
		if d := u.budget.paid[u.view.member(victim)]; d == nil || d.over || !d.at.Equal(at) {
			t.Errorf("after %s of another one it is %+v, and died at %s", over, d, at)
		}
	}
	u.step(Cloud{Node: victim, Verdict: Yes, By: leader})
	u.round(nil, allBut("", None))
	if d := u.budget.paid[u.view.member(victim)]; d == nil || !d.over {
		t.Errorf("it came back, and is %+v", d)
	}
}
