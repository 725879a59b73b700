package vote

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// look notes, every second, since when more than half of the unit see a node: a vote that
// was begun after that cannot be against it.
func (s *network) look() {
	for _, name := range s.names {
		seen := 0
		for _, other := range s.names {
			o := s.nodes[other]
			if !o.dead && !o.stalled && (other == name || s.passes(other, name) && s.answers(other)) {
				seen++
			}
		}
		if n := s.nodes[name]; n.dead || 2*seen <= len(s.names) {
			n.seen = time.Time{}
		} else if n.seen.IsZero() {
			n.seen = s.now
		}
	}
	s.after(time.Second, s.look)
}

// fault does one thing to a unit, and undoes it some time later.
func (s *network) fault() {
	some := slices.Clone(s.names)
	s.rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:1+s.rng.IntN(len(some))]
	for_ := time.Duration(1+s.rng.IntN(120)) * time.Second
	switch s.rng.IntN(11) {
	case 0:
		s.kill(some[0])
		s.after(for_, func() { s.restart(some[0]) })
	case 1:
		s.cut = between(some)
		s.after(for_, s.heal)
	case 2:
		s.cut = func(from, _ string) bool { return from == some[0] }
		s.after(for_, s.heal)
	case 3:
		s.darken(true, some...)
		s.after(for_, func() { s.darken(false, some...) })
	case 4:
		s.loss = 0.3
		s.after(for_, func() { s.loss = 0 })
	case 5:
		s.stall(some[0], for_/2)
	case 6:
		s.restart(some[0])
	case 7, 8:
		s.deaf, s.mute = map[string]bool{some[0]: true}, s.rng.IntN(2) == 0
		s.after(for_, s.heal)
	case 9:
		s.hoarse = some[0]
		s.after(for_, s.heal)
	case 10:
		if len(s.names) > 1 {
			s.change(some[0], false)
			s.nodes[some[0]].dead = s.rng.IntN(2) == 0
			s.after(for_, func() { s.change(some[0], true) })
		}
	}
}

func (s *network) heal() {
	s.cut = func(_, _ string) bool { return false }
	clear(s.deaf)
	s.hoarse = ""
}

// change has a node leave the unit, or come as another one of its name; the nodes with an uplink are
// told within a second.
func (s *network) change(name string, in bool) {
	at, is := slices.BinarySearch(s.names, name)
	switch {
	case in == is:
		return
	case in: // its kubelet made the Node, and has an uplink
		s.names = slices.Insert(slices.Clone(s.names), at, name)
		s.order++
		s.uids[name], s.nodes[name].dark = fmt.Sprint("uid-", s.order), false
		s.gather()
		s.restart(name)
	default:
		s.revive(Member{name, s.uids[name]})
		s.names = slices.Delete(slices.Clone(s.names), at, at+1)
	}
	s.gather()
	for _, other := range s.all {
		s.nodes[other].seen = time.Time{}
		s.after(time.Duration(s.rng.Int64N(int64(time.Second))), func() { s.tell(other) })
	}
}

const faults = 30 // in each history

// Whatever happens to a unit, nobody writes but who holds the Lease, and nobody is declared
// dead without more than half of the unit, nor who is seen by them (the network checks each
// write), nor more of them than may be. When it is over all are well, and all know it, and
// people were told of no more than what happened.
func TestAnythingHappens(t *testing.T) {
	deaths := 0
	for seed := range testkit.Histories(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			n := 2 + int(seed)%14
			s := newNetwork(t, n, seed)
			s.look()
			s.run(settled)
			for range faults {
				s.fault()
				s.run(time.Duration(1+s.rng.IntN(90)) * time.Second)
			}
			s.run(3 * time.Minute) // the last one ends
			s.heal()
			s.loss = 0
			s.run(6 * time.Minute)
			s.noneDead(t)
			if len(s.notes) > 3*faults/2 { // some befall half of a unit
				t.Errorf("told %d times in %d faults: %v", len(s.notes), faults, s.notes)
			}
			for _, w := range s.writes {
				if w.Verdict == No {
					deaths++
				}
			}
		})
	}
	t.Logf("%d verdicts of death", deaths)
	if deaths == 0 {
		t.Error("nobody was declared dead: nothing was tried")
	}
}
