package vote

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// vouch has all answer what a round asks that a node is well, and returns what is written.
func (u *unit) vouch(out Effects, node string) []Write {
	writes := slices.Clone(out.Write)
	for _, q := range out.Ask {
		for _, from := range u.view.Names() {
			writes = append(writes, u.step(Answered{Question: q.Number, From: from, Results: []Result{{node, Yes}}}).Write...)
		}
	}
	return writes
}

// about are those about one node.
func about(writes []Write, node string) (list []Write) {
	for _, w := range writes {
		if w.Node == node {
			list = append(list, w)
		}
	}
	return list
}

// The holder is told late that a node was declared dead, by a vote of the unit, before it held
// the Lease. Its observers see it: it is well when the unit says so, and not before.
func TestTheCloudIsHeardLate(t *testing.T) {
	for name, lost := range map[string]bool{"": false, "and the question is answered by few": true} {
		t.Run(name, func(t *testing.T) {
			u := leading(20)
			late := u.rank(7)
			list := append(without(u.view, late), Member{late, "another"}) // nothing is known of it
			u.step(Members{NewView(list, u.cfg.Observers)})
			for range 4 {
				if got := about(u.vouch(u.round(nil, allBut("", None)), late), late); len(got) > 0 {
					t.Fatalf("before it is told what stands there it writes %+v", got)
				}
			}
			u.step(Cloud{late, true, No, false, "", time.Time{}})
			asked, writes := 0, []Write(nil)
			for range 4 {
				out := u.round(nil, allBut("", None))
				asked += len(out.Ask)
				if writes = append(writes, out.Write...); !lost {
					writes = append(writes, u.vouch(out, late)...)
				}
			}
			for _, w := range about(writes, late) {
				if lost || w.Verdict != Yes || !w.Proof.Exact || w.Proof.Yes != 20 {
					t.Errorf("writes %+v", w)
				}
			}
			if asked == 0 || !lost && len(about(writes, late)) == 0 {
				t.Errorf("asked %d times, and writes %+v", asked, about(writes, late))
			}
		})
	}
}

// What the observers saw, and what the unit said long ago, is written over no death that
// somebody else wrote: it is asked about.
func TestADeathIsNotOverwritten(t *testing.T) {
	for name, exact := range map[string]bool{"by its observers": false, "by an old vote": true} {
		t.Run(name, func(t *testing.T) {
			u := leading(20)
			node := u.rank(7)
			if exact {
				u.step(Cloud{node, false, Yes, false, "", time.Time{}})
				u.vouch(u.round(nil, allBut("", None)), node)
				u.step(Cloud{node, true, Yes, false, "", time.Time{}})
				u.round(nil, allBut("", None))
			}
			for range 7 { // a minute
				u.round(nil, allBut("", None))
			}
			u.step(Cloud{node, true, No, false, "", time.Time{}})
			out := u.round(nil, allBut("", None))
			if got := about(out.Write, node); len(got) > 0 || len(out.Ask) != 1 {
				t.Fatalf("writes %+v, and asks %+v", got, out.Ask)
			}
			if got := about(u.vouch(out, node), node); len(got) != 1 || got[0].Verdict != Yes || !got[0].Proof.Exact {
				t.Errorf("writes %+v", got)
			}
		})
	}
}

// A holder that begins anew writes nothing that stands there already.
func TestAHolderBeginsAnew(t *testing.T) {
	s := newNetwork(t, 12, 3)
	s.run(settled)
	writes := len(s.writes)
	s.lag = 45 * time.Second // its mirror is slow
	s.restart(s.holder)
	s.run(5 * time.Minute)
	s.lag = 45 * time.Second
	for _, name := range s.names {
		s.restart(name)
	}
	s.run(5 * time.Minute)
	if got := s.writes[writes:]; len(got) > 0 {
		t.Errorf("%d writes: %+v", len(got), got)
	}
}

// Of what is over the budget, and of what the unit cannot decide, people hear once, and the
// unit is asked once a minute; at once where it is seen again.
func TestAskedOnceInAWhile(t *testing.T) {
	for name, tc := range map[string]struct {
		what What
		say  Answer
	}{"too many are dead": {OverBudget, No}, "no answer has a majority": {Undecided, Abstain}} {
		t.Run(name, func(t *testing.T) {
			u := leading(19) // one may die
			first, victim := u.rank(4), u.rank(7)
			say := allBut("", None)
			round := func() (out Effects) {
				out = u.round([]string{first, victim}, say)
				for _, q := range out.Ask {
					for _, from := range u.view.Names() {
						if from != first && from != victim {
							o := u.step(Answered{Question: q.Number, From: from, Results: []Result{{first, No}, {victim, tc.say}}})
							out.Tell = append(out.Tell, o.Tell...)
						}
					}
				}
				u.now = u.now.Add(u.cfg.AskFor)
				out.Tell = append(out.Tell, u.step(Tick{}).Tell...)
				return out
			}
			say = allBut(first, No)
			for range 3 {
				round()
			}
			if u.verdicts[first].Answer != No {
				t.Fatal("the first one is not dead")
			}
			say = func(_, of string) []Result {
				if of == first || of == victim {
					return []Result{{of, No}}
				}
				return []Result{{of, Yes}}
			}
			asked, told := 0, map[Note]int{}
			count := func(out Effects) {
				for _, q := range out.Ask {
					if slices.Contains(q.Targets, victim) {
						asked++
					}
				}
				for _, n := range out.Tell {
					told[n]++
				}
			}
			for range 18 { // three minutes
				count(round())
			}
			if asked < 2 || asked > 4 || !maps.Equal(told, map[Note]int{{victim, tc.what}: 1}) {
				t.Errorf("in three minutes it is asked %d times, and told are %v", asked, told)
			}
			asked = 0
			u.step(Cloud{victim, false, Yes, false, "", time.Time{}})
			say = allBut(first, No)
			if count(round()); asked != 1 {
				t.Errorf("it is seen again, and asked about %d times", asked)
			}
		})
	}
}

// A unit of one has nobody to say anything of it, and of two the one that is left is not told
// of itself.
func TestOfFewNobodyIsTold(t *testing.T) {
	for n := 1; n <= 2; n++ {
		s := newNetwork(t, n, 1)
		s.run(settled)
		s.kill(s.names[1:]...)
		s.run(20 * time.Minute)
		if len(s.notes) > 0 {
			t.Errorf("of %d told: %v", n, s.notes)
		}
		if n == 1 && s.asks+len(s.writes) > 0 {
			t.Errorf("of one %d questions and %d writes", s.asks, len(s.writes))
		}
	}
}

// What is replied costs as much in a unit of 5000 as in one of 50.
func TestWhatAReplyCosts(t *testing.T) {
	took := map[int]time.Duration{}
	for _, n := range []int{50, 5000} {
		u := of(n, 0)
		say := func(_, of string) []Result { return []Result{{of, Yes}} }
		for range 4 {
			u.round(nil, say)
		}
		if r := u.Reply(u.now); !r.Leads || len(r.Ups) != u.cfg.Reporters {
			t.Fatalf("of %d nodes it replies %+v", n, r)
		}
		took[n] = time.Hour
		for range 5 {
			start := time.Now()
			for range 200 {
				u.Reply(u.now)
			}
			took[n] = min(took[n], time.Since(start))
		}
	}
	t.Logf("200 replies: %v", took)
	if took[5000] > 10*took[50] {
		t.Errorf("200 replies take %v", took)
	}
}

// Who leads without a cloud declares nobody dead by what that said last, until the unit has said so.
func TestTheCloudsLastWordIsAskedAbout(t *testing.T) {
	for back, want := range map[bool]int{true: 0, false: 1} {
		u := of(20, 0)
		node := u.rank(7)
		for _, name := range u.view.Names() {
			u.step(Cloud{Node: name, Ready: name != node, Verdict: map[bool]Answer{true: No, false: Yes}[name == node]})
		}
		say, asked := allBut(node, No), 0
		if back {
			say = allBut("", None)
		}
		for range 6 {
			out := u.round([]string{node}, say)
			if got := u.Dead(u.now); len(got) > 0 && asked == 0 {
				t.Errorf("back %v: before the unit was asked %v are dead", back, got)
			}
			for _, q := range out.Ask {
				asked++
				for _, from := range u.view.Names() {
					if back || from != node {
						u.step(Answered{Question: q.Number, From: from, Results: say(from, node)})
					} else {
						u.step(Answered{Question: q.Number, From: from, Failed: true})
					}
				}
			}
		}
		if got := u.Dead(u.now); len(got) != want || asked == 0 {
			t.Errorf("back %v: asked %d times, %v are dead", back, asked, got)
		}
	}
}
