package vote

import (
	"slices"
	"testing"
	"time"
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

// A node loses its uplink alone: before the cloud's 50 s are over it says by a vote of the
// unit that the node is well, and again every minute.
func TestAnUplinkIsCut(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		for victim := range min(n, 4) {
			s := newNetwork(t, n, uint64(victim))
			s.run(settled)
			name, at := s.names[victim], s.now.Sub(began)
			held := name == s.holder
			s.darken(true, name)
			s.run(5 * time.Minute)
			var times []time.Duration
			for _, w := range s.writes {
				if w.Node == name && w.at > at && w.Proof.Exact && w.Verdict == Yes {
					times = append(times, (w.at - at).Round(time.Second))
				}
			}
			t.Logf("the holder %v: said to be well after %v", held, times)
			if limit := map[bool]time.Duration{false: 45 * time.Second, true: 60 * time.Second}[held]; len(times) < 4 || times[0] > limit {
				t.Errorf("%s is said to be well after %v", name, times)
			}
			s.noneDead(t)
		}
	})
}

// The whole unit has no uplink: nobody writes. A node that dies then is dead to the unit's
// other nodes, and alive once it is there again.
func TestADarkUnit(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		s := newNetwork(t, n, 7)
		s.run(settled)
		s.darken(true, s.names...)
		writes := len(s.writes)
		s.run(2 * time.Minute)
		s.noneDead(t)
		s.kill(s.names[1])
		s.run(2 * time.Minute)
		for i, name := range s.names {
			got := s.nodes[name].Dead(s.nodes[name].now(s))
			if want := []string{s.names[1]}; i != 1 && n > 2 && !slices.Equal(got, want) {
				t.Errorf("%s has for dead %q, want %q", name, got, want)
			} else if n == 2 && len(got) > 0 {
				t.Errorf("one of two without a cloud has for dead %q", got)
			}
		}
		s.nodes[s.names[1]].dead = false
		s.step(s.names[1], Tick{})
		s.run(2 * time.Minute)
		s.noneDead(t)
		if len(s.writes) > writes {
			t.Errorf("%d writes without an uplink", len(s.writes)-writes)
		}
	})
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

// A third of all packets is lost: nobody is declared dead, and who died is.
func TestLoss(t *testing.T) {
	for seed := range uint64(5) {
		s := newNetwork(t, 30, seed)
		s.loss = 0.3
		s.run(20 * time.Minute)
		s.noneDead(t)
		s.kill(s.names[3])
		s.run(3 * time.Minute)
		if got := s.dead(); !slices.Equal(got, s.names[3:4]) {
			t.Errorf("seed %d: dead are %q", seed, got)
		}
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
	s.run(4 * time.Minute)
	if got := len(s.dead()); got != 4 {
		t.Errorf("%d of 40 are declared dead within a window, want 4", got)
	}
	over := slices.ContainsFunc(s.notes, func(n Note) bool { return n.What == OverBudget })
	s.run(16 * time.Minute)
	if got := s.dead(); !slices.Equal(got, s.names[:12]) || !over {
		t.Errorf("dead in the end are %q; that there were too many was told: %v", got, over)
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
