package vote

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// between cuts all of some off from all others.
func between(some []string) func(from, to string) bool {
	return func(from, to string) bool { return slices.Contains(some, from) != slices.Contains(some, to) }
}

// noneDead fails where one is, by the last word that was written or that a node has.
func (s *network) noneDead(t *testing.T) {
	t.Helper()
	if got := s.dead(); len(got) > 0 {
		t.Errorf("declared dead: %q", got)
	}
	for _, name := range s.names {
		if got := s.nodes[name].Dead(s.nodes[name].now(s)); len(got) > 0 && !s.nodes[name].dead {
			t.Errorf("%s has for dead: %q", name, got)
		}
	}
}

// A node loses its uplink alone, and finds out as late as it may: 20 s after the cut, 30 where it held
// the Lease, it is said by a vote of the unit that the node is well, and again every minute. Its last
// heartbeat was up to 10 s before, so that is before 40 s are over: Kubernetes' patience until 1.31.
func TestAnUplinkIsCut(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		forVictims(t, n, func(s *network, name string, at time.Duration, held bool) {
			s.darken(true, name)
			s.run(5 * time.Minute)
			var times []time.Duration
			for _, w := range s.writes {
				if w.Node == name && w.at > at && w.Proof.Exact && w.Verdict == Yes {
					times = append(times, (w.at - at).Round(time.Second))
				}
			}
			t.Logf("the holder %v: said to be well after %v", held, times)
			if most := map[bool]time.Duration{false: 20 * time.Second, true: 30 * time.Second}[held]; len(times) < 4 || times[0] > most {
				t.Errorf("%s is said to be well after %v", name, times)
			}
			s.noneDead(t)
		})
	})
}

// The uplink is back: what says that there is none is written anew, once, also by who held the Lease
// only after that.
func TestAnUplinkIsBack(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		forVictims(t, n, func(s *network, name string, _ time.Duration, _ bool) {
			s.darken(true, name)
			s.run(3 * time.Minute)
			if !s.lastCut(name) {
				t.Fatal("it is not written that it has no uplink")
			}
			s.darken(false, name)
			s.run(2 * time.Minute)
			writes := len(s.writes)
			s.run(10 * time.Minute)
			if s.lastCut(name) || len(s.writes) > writes {
				t.Errorf("no uplink by what is written: %v; %d writes when all was over", s.lastCut(name), len(s.writes)-writes)
			}
		})
	})
}

// The whole unit has no uplink: nobody writes. A node that dies then is dead to the unit's
// other nodes all the while, also where a third of all packets is lost, and alive once it is
// there again.
func TestADarkUnit(t *testing.T) {
	t.Run("", func(t *testing.T) { forSizes(t, func(t *testing.T, n int) { aDarkUnit(t, n, 0, 1) }) })
	t.Run("with loss", func(t *testing.T) {
		forSizes(t, func(t *testing.T, n int) { aDarkUnit(t, n, 0.3, testkit.Histories(1)) })
	})
}

func aDarkUnit(t *testing.T, n int, loss float64, seeds uint64) {
	for seed := range seeds {
		s := newNetwork(t, n, 7+seed)
		s.run(settled)
		s.loss = loss
		s.darken(true, s.names...)
		writes := len(s.writes)
		s.run(2 * time.Minute)
		s.noneDead(t)
		if n == 1 {
			return
		}
		s.kill(s.names[1])
		s.run(3 * time.Minute)
		s.watch(10*time.Minute, func() {
			for i, name := range s.names {
				got := s.nodes[name].Dead(s.nodes[name].now(s))
				if want := []string{s.names[1]}; i != 1 && n > 2 && !slices.Equal(got, want) {
					t.Fatalf("after %s %s has for dead %q, want %q", s.now.Sub(began), name, got, want)
				} else if n == 2 && len(got) > 0 {
					t.Fatalf("one of two without a cloud has for dead %q", got)
				}
			}
		})
		s.loss = 0
		s.nodes[s.names[1]].dead = false
		s.step(s.names[1], Tick{})
		s.run(2 * time.Minute)
		s.noneDead(t)
		if len(s.writes) > writes {
			t.Errorf("%d writes without an uplink", len(s.writes)-writes)
		}
	}
}

// A unit falls into two parts: half and half nobody is declared dead; of two parts the
// larger one declares the smaller one dead, within the budget, and the smaller one nobody.
func TestAUnitIsSplit(t *testing.T) {
	for name, tc := range map[string]struct{ n, part int }{"halves": {6, 3}, "halves of many": {50, 25}, "two to one": {6, 2}, "two to one of many": {51, 17}} {
		t.Run(name, func(t *testing.T) {
			s := newNetwork(t, tc.n, 3)
			s.run(settled)
			small := s.names[:tc.part]
			s.cut = between(small)
			s.run(10 * time.Minute)
			dead := s.dead()
			budget := 0
			if 2*tc.part < tc.n {
				budget = 3 * max(1, tc.n/10) // in the windows of ten minutes, and the one that is begun
			}
			t.Logf("declared dead: %q", dead)
			if len(dead) > budget || budget > 0 && len(dead) == 0 || slices.ContainsFunc(dead, func(name string) bool { return !slices.Contains(small, name) }) {
				t.Errorf("declared dead: %q, of %q", dead, small)
			}
			s.cut = func(_, _ string) bool { return false }
			s.run(3 * time.Minute)
			s.noneDead(t)
		})
	}
}

// No packet is known to pass between nodes, as behind a NAT (superedge#433): nobody is dead.
func TestNobodySeesAnybody(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		s := newNetwork(t, n, 5)
		s.run(settled)
		s.cut = func(_, _ string) bool { return true }
		s.run(10 * time.Minute)
		if n > 2 {
			s.noneDead(t)
		}
	})
}

// The port that is checked is closed between nodes, to all of them or to most, and what they tell
// each other passes: nobody is dead. A node whose own is closed to all is.
func TestAPortIsClosed(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		s := newNetwork(t, n, 5)
		s.run(settled)
		s.blind = func(_, _ string) bool { return true }
		s.run(10 * time.Minute)
		s.noneDead(t)
		if n < 4 {
			return
		}
		victim := s.names[1]
		s.blind = func(from, to string) bool { return to == victim && from != s.names[2] }
		s.run(10 * time.Minute)
		s.noneDead(t)
		s.blind = func(_, to string) bool { return to == victim }
		s.run(2 * time.Minute)
		if got := s.dead(); !slices.Equal(got, []string{victim}) {
			t.Errorf("dead are %q", got)
		}
	})
}

// A node dies, and another machine gets its address: it is well by what others reach there, for ten
// minutes. One that lost its uplink, and says so itself, is well for as long as it does.
func TestAnAddressIsAnothers(t *testing.T) {
	s := newNetwork(t, 6, 5)
	s.run(settled)
	victim, cut := s.names[2], s.names[4]
	s.kill(victim)
	s.usurped[victim] = true
	s.darken(true, cut)
	since := s.now.Sub(began)
	s.run(30 * time.Minute)
	a, at := s.last(victim)
	if at -= since; a != Yes || at > 13*time.Minute || at < 8*time.Minute {
		t.Errorf("the dead one is said to be %s for %s", a, at)
	}
	s.well(t, since, cut)
	if !slices.ContainsFunc(s.notes, func(n note) bool { return n.Note == Note{victim, Wordless} }) {
		t.Errorf("told: %v", s.notes)
	}
}

// A third of all packets is lost: nobody is declared dead, and who died is, and goes on
// being so to all others.
func TestLoss(t *testing.T) {
	for seed := range testkit.Histories(2) {
		s := newNetwork(t, 30, seed)
		s.loss = 0.3
		s.run(20 * time.Minute)
		s.noneDead(t)
		s.kill(s.names[3])
		s.run(3 * time.Minute)
		if got := s.dead(); !slices.Equal(got, s.names[3:4]) {
			t.Errorf("seed %d: dead are %q", seed, got)
		}
		s.watch(10*time.Minute, func() { s.deadTo(t, s.names[3]) })
	}
}

// A node that hears everybody and is seen by nobody is dead to those, and one that sees
// nobody and is seen declares nobody dead.
func TestPacketsPassOneWay(t *testing.T) {
	s := newNetwork(t, 12, 2)
	s.run(settled)
	s.cut = func(from, to string) bool { return from == s.names[4] }
	s.run(5 * time.Minute)
	for _, name := range s.dead() {
		if name != s.names[4] {
			t.Errorf("declared dead: %s", name)
		}
	}
}

// A tenth of a unit, and then of the rest, may be declared dead at a time, and the others later.
func TestManyDieAtOnce(t *testing.T) {
	s := newNetwork(t, 40, 9)
	s.run(settled)
	s.kill(s.names[:12]...)
	before := s.targets
	s.run(4 * time.Minute)
	if got := len(s.dead()); got != 4 {
		t.Errorf("%d of 40 are declared dead within a window, want 4", got)
	}
	// Of each once, and again each minute; the Lease passes on once.
	if asked := s.targets - before; asked > 12*5 {
		t.Errorf("within four minutes the unit is asked %d times about one of 12", asked)
	}
	told := map[note]int{}
	for _, n := range s.notes {
		told[n]++
	}
	if len(told) < 8 || slices.Max(slices.Collect(maps.Values(told))) > 1 {
		t.Errorf("told: %v", told)
	}
	s.run(16 * time.Minute)
	if got := s.dead(); !slices.Equal(got, s.names[:12]) {
		t.Errorf("dead in the end are %q", got)
	}
}

// A node that is starved denies nobody.
func TestAStarvedNodeAbstains(t *testing.T) {
	m := New(Default("a"))
	m.Step(began, Members{NewView([]Member{{"a", "1"}, {"b", "2"}, {"c", "3"}}, 10)})
	m.Step(began.Add(16*time.Second), Tick{}) // six seconds late
	if got := m.Answers(map[string]bool{"b": false, "c": true}); !slices.Equal(got, []Result{{"b", Abstain}, {"c", Yes}}) {
		t.Errorf("got %v", got)
	}
	m.Step(began.Add(26*time.Second), Tick{})
	if got := m.Answers(map[string]bool{"b": false, "c": true}); !slices.Equal(got, []Result{{"b", No}, {"c", Yes}}) {
		t.Errorf("got %v", got)
	}
}

// No node has an uplink, or one that no other reaches has one, and the first by rank is
// reached by none either: what they send arrives. A node that dies is dead to all others.
func TestADarkUnitHearsWhoDoesNotHearIt(t *testing.T) {
	for name, tc := range map[string]struct{ up, mute bool }{"no uplink": {false, false}, "no uplink and no answers": {false, true}, "one with an uplink": {true, false}, "one with an uplink and no answers": {true, true}} {
		t.Run(name, func(t *testing.T) {
			s := newNetwork(t, 15, 3)
			s.run(settled)
			first, victim, last := s.view.Ranked()[0], s.view.Ranked()[9], s.view.Ranked()[14]
			s.darken(true, s.names...)
			s.mute, s.deaf[first] = tc.mute, true
			if tc.up {
				s.deaf[last] = true
				s.darken(false, last)
			}
			s.run(11 * time.Minute) // of each five minutes' deaths those two take one each
			s.kill(victim)
			s.run(6 * time.Minute)
			for _, name := range s.names {
				if n := s.nodes[name]; !n.dead && !s.deaf[name] && !n.isDead(n.now(s), victim) {
					t.Errorf("%s does not know that %s is dead", name, victim)
				}
			}
		})
	}
}

// Who could hold the Lease, and does not, keeps nobody from leading; who holds it does.
func TestWhoLeads(t *testing.T) {
	s := newNetwork(t, 12, 4)
	leading := func() (list []string) {
		for _, name := range s.names {
			if n := s.nodes[name]; n.leads(n.now(s)) {
				list = append(list, name)
			}
		}
		return list
	}
	s.refused = true
	s.run(settled)
	if got := leading(); !slices.Equal(got, s.view.Ranked()[:1]) {
		t.Errorf("without a Lease %q lead", got)
	}
	s.darken(true, s.view.Ranked()[0])
	s.refused = false
	s.run(settled)
	if got := leading(); !slices.Equal(got, []string{s.holder}) || s.holder == s.view.Ranked()[0] {
		t.Errorf("%q lead, and %q holds the Lease", got, s.holder)
	}
	s.noneDead(t)
}

// Who leads hears all others, and is answered by none: another one leads, with the Lease and
// without, and a node that dies is dead.
func TestALeaderWithoutAVoice(t *testing.T) {
	for name, dark := range map[string]bool{"by the Lease": false, "in the dark": true} {
		t.Run(name, func(t *testing.T) {
			s := newNetwork(t, 15, 3)
			s.run(settled)
			s.hoarse = s.holder
			if dark {
				s.hoarse = s.view.Ranked()[0]
				s.darken(true, s.names...)
			}
			victim := s.view.Ranked()[9]
			s.run(time.Minute)
			s.kill(victim)
			s.run(3 * time.Minute)
			if a, _ := s.last(victim); !dark && a != No {
				t.Errorf("%s is %s, and %q holds the Lease", victim, a, s.holder)
			}
			for _, name := range s.names {
				if n := s.nodes[name]; !n.dead && name != s.hoarse && !n.isDead(n.now(s), victim) {
					t.Errorf("%s does not know that %s is dead", name, victim)
				}
			}
		})
	}
}

// Who is dead to the unit is not offered as one that reaches the cloud: nobody can report to
// it, and it would stand before one that hears.
func TestTheDeadAreNotOffered(t *testing.T) {
	u := of(8, 1)
	for range 4 {
		u.round(nil, allBut("", None))
	}
	u.step(Delivered{u.rank(0), true, Reply{Leads: true, Dead: []string{u.rank(2), u.rank(3)}}})
	u.round(nil, allBut("", None))
	if got := u.Reply(u.now).Ups; !slices.Equal(got, []string{u.rank(0), u.rank(4), u.rank(5)}) {
		t.Errorf("offered are %q, of %q", got, u.view.Ranked())
	}
}

// Nobody is taken for the leader any more who left the unit, takes no report, or said that it
// leads no more: what others knew before that is old.
func TestALeaderEnds(t *testing.T) {
	for name, end := range map[string]func(u *unit, leader string){
		"it left": func(u *unit, leader string) {
			u.step(Members{NewView(without(u.view, leader), u.cfg.Observers)})
		},
		"it takes no report": func(u *unit, leader string) {
			u.step(Delivered{To: leader})
			u.step(Delivered{To: leader})
		},
		"it says so": func(u *unit, leader string) { u.step(Delivered{leader, true, Reply{}}) },
	} {
		t.Run(name, func(t *testing.T) {
			u := of(8, 2)
			leader, other := u.rank(3), u.rank(0)
			u.step(Delivered{other, true, Reply{Leader: leader}})
			if u.leader != leader {
				t.Fatalf("%q leads", u.leader)
			}
			u.now = u.now.Add(2 * time.Second)
			end(u, leader)
			u.step(Delivered{other, true, Reply{Leader: leader, Age: time.Second}})
			if u.leader != "" {
				t.Errorf("%q leads", u.leader)
			}
			if u.step(Delivered{To: leader}); u.silent[leader] > 0 {
				u.now = u.now.Add(2 * time.Second)
				u.step(Delivered{other, true, Reply{Leader: leader}})
			}
			if u.leader != "" {
				t.Errorf("%q takes no report, and leads", u.leader)
			}
		})
	}
}
