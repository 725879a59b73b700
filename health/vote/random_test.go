package vote

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// look notes, every second, since when more than half of the unit see a node: a vote that
// was begun after that cannot be against it.
func (s *network) look() {
	for _, name := range s.names {
		seen := 0
		for _, other := range s.names {
			o := s.nodes[other]
			if !o.dead && !o.stalled && !s.cut(other, name) && !s.cut(name, other) {
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
	switch s.rng.IntN(7) {
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
	}
}

func (s *network) heal() { s.cut = func(_, _ string) bool { return false } }

const runs = 60

// Whatever happens to a unit, nobody writes but who holds the Lease, and nobody is declared
// dead without more than half of the unit, nor who is seen by them (the network checks each
// write). When it is over all are well, and all know it.
func TestAnythingHappens(t *testing.T) {
	deaths := 0
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			n := 2 + int(seed)%14
			s := newNetwork(t, n, seed)
			s.look()
			s.run(settled)
			for range 30 {
				s.fault()
				s.run(time.Duration(1+s.rng.IntN(90)) * time.Second)
			}
			s.run(3 * time.Minute) // the last one ends
			s.heal()
			s.loss = 0
			s.run(6 * time.Minute)
			s.noneDead(t)
			for _, w := range s.writes {
				if w.Verdict == No {
					deaths++
				}
			}
		})
	}
	t.Logf("%d verdicts of death in %d runs", deaths, runs)
	if deaths == 0 {
		t.Error("nobody was declared dead: nothing was tried")
	}
}
