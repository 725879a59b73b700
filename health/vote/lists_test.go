package vote

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// join has a node that never was in the unit come into it.
func (s *network) join(name string) {
	s.nodes[name] = &simNode{Machine: New(Default(name)), posted: s.now}
	s.all = append(slices.Clone(s.all), name)
	slices.Sort(s.all)
	s.change(name, true)
}

// well fails where the unit did not say by a vote that a node is well, as often as the cloud wants it:
// what a verdict rests on counts for 150 s there (health/shield).
func (s *network) well(t *testing.T, since time.Duration, names ...string) {
	t.Helper()
	for _, name := range names {
		last := since
		for _, w := range s.writes {
			if w.Node != name || w.at < since {
				continue
			}
			if w.Verdict != Yes || !w.Proof.Exact {
				t.Errorf("%s lives, and is said to be %s by %+v", name, w.Verdict, w.Proof)
			}
			if gap := w.at - last; gap > 140*time.Second {
				t.Errorf("of %s nothing is said for %s, after %s", name, gap, last)
			}
			last = w.at
		}
		if gap := s.now.Sub(began) - last; gap > 140*time.Second {
			t.Errorf("of %s nothing is said for %s, until the end", name, gap)
		}
	}
}

// Nodes are cut off, and who is in the unit changes: they are not told of it by the cloud, and go
// on being well to the unit. One died and its Node is deleted; another one joins; all of these that
// have an uplink are replaced, one by one, by nodes that those without never heard of before.
func TestTheUnitChangesWhileNodesAreCut(t *testing.T) {
	for name, tc := range map[string]struct{ n, cut int }{"one of three": {3, 1}, "two of three": {3, 2}, "three of five": {5, 3}, "half of twelve": {12, 6}, "all but one of 20": {20, 19}} {
		t.Run("a node goes/"+name, func(t *testing.T) {
			s := newNetwork(t, tc.n+1, 3)
			s.run(settled)
			victim, cut := s.names[0], s.names[1:1+tc.cut]
			s.kill(victim)
			s.run(time.Minute)
			s.darken(true, cut...)
			s.run(time.Minute)
			s.change(victim, false)
			since := s.now.Sub(began)
			s.run(20 * time.Minute)
			s.well(t, since, cut...)
		})
		t.Run("a node comes/"+name, func(t *testing.T) {
			s := newNetwork(t, tc.n, 4)
			s.run(settled)
			cut := s.names[:tc.cut]
			s.darken(true, cut...)
			s.run(time.Minute)
			since := s.now.Sub(began)
			s.join("new")
			s.run(20 * time.Minute)
			s.well(t, since, cut...)
		})
		t.Run("the others are replaced/"+name, func(t *testing.T) {
			s := newNetwork(t, tc.n, 5)
			s.run(settled)
			cut, others := s.names[:tc.cut], s.names[tc.cut:]
			s.darken(true, cut...)
			since := s.now.Sub(began)
			for i, old := range others {
				s.run(2 * time.Minute)
				s.join(fmt.Sprint("new", i))
				s.run(3 * time.Minute)
				s.nodes[old].dead = true
				s.change(old, false)
			}
			s.run(5 * time.Minute)
			s.well(t, since, cut...)
			for _, name := range cut {
				if got := s.nodes[name].view; got.ID != s.view.ID {
					t.Errorf("%s knows %q in the unit, and there are %q", name, got.Names(), s.names)
				}
			}
		})
	}
}

// A node without an uplink is moved to another unit, or its Node is deleted: what it says counts for
// nobody who knows that, and it is given no list without itself.
func TestANodeIsMovedWhileItIsCut(t *testing.T) {
	s := newNetwork(t, 6, 3)
	s.run(settled)
	gone := s.names[2]
	s.darken(true, gone)
	s.run(time.Minute)
	s.change(gone, false)
	s.run(time.Minute)
	for _, name := range s.names {
		if s.nodes[name].heard[gone] != nil {
			t.Errorf("%s has a report of %s", name, gone)
		}
	}
	if v := s.nodes[gone].view; !v.Has(gone) || v.Len() != 6 {
		t.Errorf("it knows %q", v.Names())
	}
	writes := len(s.writes)
	s.run(5 * time.Minute)
	if n := len(s.writes) - writes; n > 0 || !slices.Equal(s.dead(), nil) {
		t.Errorf("%d writes, and %q are dead", n, s.dead())
	}
	s.darken(false, gone)
	s.run(time.Minute)
	if v := s.nodes[gone].view; v.Len() > 0 {
		t.Errorf("it was told, and knows %q", v.Names())
	}
}

// A machine is made anew under a name that is in the unit: to who has no uplink it is the old one, and
// it says nothing of it; neither is it taken for dead by what is seen at the old one's address.
func TestANodeIsMadeAnewWhileOthersAreCut(t *testing.T) {
	s := newNetwork(t, 5, 6)
	s.run(settled)
	cut := s.names[1:4]
	s.darken(true, cut...)
	s.run(time.Minute)
	s.change(s.names[0], false)
	s.run(time.Second)
	s.change("n000", true)
	since := s.now.Sub(began)
	s.run(10 * time.Minute)
	s.noneDead(t)
	s.well(t, since, cut...)
}
