package vote

import (
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// watch goes on for some time, and looks each second.
func (s *network) watch(d time.Duration, look func()) {
	for range d / time.Second {
		s.run(time.Second)
		look()
	}
}

// deadTo fails where a node is not dead to one that lives, of those that it is to be dead to.
func (s *network) deadTo(t *testing.T, victim string, but ...string) {
	t.Helper()
	for _, name := range s.names {
		if n := s.nodes[name]; !n.dead && !slices.Contains(but, name) && !n.isDead(n.now(s), victim) {
			t.Fatalf("after %s %s takes %s for alive", s.now.Sub(began), name, victim)
		}
	}
}

// aliveTo fails where a node is dead to one that lives.
func (s *network) aliveTo(t *testing.T, name string) {
	t.Helper()
	for _, by := range s.names {
		if n := s.nodes[by]; !n.dead && n.isDead(n.now(s), name) {
			t.Fatalf("after %s %s takes %s for dead", s.now.Sub(began), by, name)
		}
	}
}

// In the dark the one that ranks first comes again, leads, and goes: who was declared dead is
// so to all others all the while, and is paid for once.
func TestTheDeadOutliveTheirLeader(t *testing.T) {
	for seed := range testkit.Histories(3) {
		s := newNetwork(t, 15, seed)
		s.run(settled)
		s.darken(true, s.names...)
		first, victim, later := s.view.Ranked()[0], s.view.Ranked()[9], s.view.Ranked()[12]
		s.kill(first)
		s.run(6 * time.Minute) // it is paid for, and that is over
		s.kill(victim)
		s.run(time.Minute)
		s.deadTo(t, victim)
		s.restart(first)
		s.watch(100*time.Second, func() { s.deadTo(t, victim, first) })
		if n := s.nodes[first]; !n.leads(n.now(s)) {
			t.Fatalf("seed %d: the first by rank does not lead", seed)
		}
		s.deadTo(t, victim)
		s.kill(first)
		s.watch(time.Minute, func() { s.deadTo(t, victim, first) })
		s.kill(later)
		s.watch(time.Minute, func() { s.aliveTo(t, later) }) // within the window of the first death
		s.watch(6*time.Minute, func() { s.deadTo(t, victim) })
	}
}

// A node that came back in the dark is not dead again because another one leads, to which
// the cloud once said that it is.
func TestTheLivingOutliveTheirLeader(t *testing.T) {
	s := newNetwork(t, 15, 2)
	s.run(settled)
	first, victim := s.view.Ranked()[0], s.view.Ranked()[9]
	s.kill(victim)
	s.run(2 * time.Minute)
	if a, _ := s.last(victim); a != No {
		t.Fatalf("%s is %s", victim, a)
	}
	s.darken(true, s.names...)
	s.run(time.Minute)
	s.nodes[victim].dead = false
	s.step(victim, Tick{})
	s.run(time.Minute)
	s.aliveTo(t, victim)
	s.kill(first)
	s.watch(2*time.Minute, func() { s.aliveTo(t, victim) })
}

// A tenth of a unit in five minutes, whoever holds the Lease meanwhile, and however often it
// begins anew.
func TestTheBudgetOutlivesItsHolder(t *testing.T) {
	for name, change := range map[string]func(s *network){
		"another holds the Lease": func(s *network) { s.darken(true, s.holder) },
		"all begin anew": func(s *network) {
			for _, name := range s.names {
				if !s.nodes[name].dead {
					s.restart(name)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newNetwork(t, 15, 4)
			s.run(settled)
			var victims []string
			for _, name := range s.names {
				if name != s.holder && len(victims) < 3 {
					victims = append(victims, name)
				}
			}
			s.kill(victims...)
			s.run(time.Minute)
			if got := s.dead(); len(got) != 1 {
				t.Fatalf("dead are %q", got)
			}
			change(s)
			s.run(3 * time.Minute) // the network counts
			if got := s.dead(); len(got) != 1 {
				t.Errorf("dead are %q", got)
			}
			s.run(20 * time.Minute)
			if got := s.dead(); !slices.Equal(got, victims) {
				t.Errorf("dead in the end are %q", got)
			}
		})
	}
}

// One report that gets lost, or two in a row, make nobody forget who is dead, nor who leads.
func TestAReportIsLost(t *testing.T) {
	for lost := range 3 {
		u := of(20, 10)
		leader, victim := u.rank(3), u.rank(15)
		told, named := Reply{Leads: true, Dead: []string{victim}}, Reply{Leader: leader, Age: time.Second}
		u.step(Delivered{u.rank(0), true, named})
		left, heard := lost, 0
		for round := range 12 {
			for _, to := range u.round([]string{victim}, allBut(victim, No)).Report {
				switch {
				case to != leader:
					u.step(Delivered{to, true, named})
				case round > 1 && left > 0:
					left--
					u.step(Delivered{To: to})
				default:
					heard++
					u.step(Delivered{to, true, told})
				}
			}
			if round > 0 && !u.isDead(u.now, victim) {
				t.Fatalf("%d lost: in round %d it is alive", lost, round)
			}
		}
		if want := 11 - lost; lost < 2 && heard < want {
			t.Errorf("%d lost: the leader is reported to in %d rounds, want %d", lost, heard, want)
		}
	}
}

// Who is cut off from all goes on asking whether somebody takes its reports.
func TestWhoIsCutOffTries(t *testing.T) {
	u := of(5, 0)
	for round := range 12 {
		out := u.round(u.view.Names(), allBut("", None))
		if len(out.Report) == 0 {
			t.Errorf("in round %d nothing is sent", round)
		}
		for _, to := range out.Report {
			u.step(Delivered{To: to})
		}
	}
}
