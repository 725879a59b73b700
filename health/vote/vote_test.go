package vote

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const settled = 90 * time.Second // from nothing to a Lease and a verdict of each

// sizes of units: up to 11 nodes all observe all.
var sizes = []int{1, 2, 3, 4, 5, 11, 12, 60}

func forSizes(t *testing.T, f func(t *testing.T, n int)) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) { f(t, n) })
	}
}

// soon is when the unit has found out what became of a node, and of who held the Lease.
var soon = map[bool]time.Duration{false: 45 * time.Second, true: 60 * time.Second}

// forVictims has something happen to some of the nodes of a unit, to each in one of its own.
func forVictims(t *testing.T, n int, f func(s *network, name string, at time.Duration, held bool)) {
	if n < 2 {
		return // nobody sees what becomes of it
	}
	for victim := range min(n, 4) {
		s := newNetwork(t, n, uint64(victim))
		s.run(settled)
		name := s.names[victim]
		f(s, name, s.now.Sub(began), name == s.holder)
	}
}

// A unit in which nothing happens says once of each node that it is well, asks nobody, and
// sends as much with many nodes as with few.
func TestNothingHappens(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		s := newNetwork(t, n, 1)
		s.run(settled)
		for _, name := range s.names {
			if a, _ := s.last(name); a != Yes && n > 1 {
				t.Errorf("%s is %s", name, a)
			}
		}
		writes, asks := len(s.writes), s.asks
		reports, checks := s.reports, s.checks
		s.run(10 * time.Minute)
		if len(s.writes) != writes || n > 1 && len(s.writes) != n || n == 1 && len(s.writes) > 0 || s.asks != asks {
			t.Errorf("%d writes and %d questions, when nothing happens; %d in all", len(s.writes)-writes, s.asks-asks, len(s.writes))
		}
		rounds := 60 * n
		if r, c := s.reports-reports, s.checks-checks; r > 3*rounds || c > 10*rounds {
			t.Errorf("%d reports and %d checks in 60 rounds of %d nodes", r, c, n)
		}
		if len(s.notes) > 0 {
			t.Errorf("told: %v", s.notes)
		}
	})
}

// A node dies: it is declared dead, it alone, and before the cloud's own 50 s are over.
func TestANodeDies(t *testing.T) {
	forSizes(t, func(t *testing.T, n int) {
		forVictims(t, n, func(s *network, name string, at time.Duration, held bool) {
			s.kill(name)
			s.run(2 * time.Minute)
			a, when := s.last(name)
			if got := s.dead(); a != No || !slices.Equal(got, []string{name}) {
				t.Fatalf("%s died, and dead are %q", name, got)
			}
			if took := when - at; took > 5*time.Minute {
				t.Errorf("declared dead after %s", took)
			}
			first := slices.IndexFunc(s.writes, func(w write) bool { return w.Node == name && w.Verdict == No })
			took := s.writes[first].at - at
			t.Logf("declared dead after %s by %+v", took.Round(time.Second), s.writes[first].Proof)
			if len(s.notes) > 0 {
				t.Errorf("told: %v", s.notes)
			}
			if took > soon[held] {
				t.Errorf("declared dead after %s; it held the Lease: %v", took, held)
			}
		})
	})
}
