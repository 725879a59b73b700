package vote

import (
	"testing"
	"time"
)

// For how many rounds a node is suspected begins anew each time that the unit was asked about it;
// since when it is does not, until somebody vouches for it.
func TestSinceWhenItIsSuspected(t *testing.T) {
	s := newNetwork(t, 5, 1)
	s.run(settled)
	victim := s.names[0]
	if victim == s.holder {
		victim = s.names[1]
	}
	known := func() Known { n := s.nodes[s.holder]; return n.Known(n.now(s)) }
	if k := known(); !k.Leads || len(k.Doubted) > 0 {
		t.Fatalf("before anything happens: leads %v, doubted %v", k.Leads, k.Doubted)
	}
	killed := s.nodes[s.holder].now(s)
	s.kill(victim)
	s.run(time.Minute)
	since, anew, last := known().Doubted[victim], 0, 0
	if since.Before(killed) || since.Sub(killed) > time.Minute {
		t.Fatalf("killed at %s, and doubted since %s", killed, since)
	}
	for range 60 {
		s.run(10 * time.Second)
		k := known()
		if k.Suspects[victim] < last {
			anew++
		}
		if last = k.Suspects[victim]; !k.Doubted[victim].Equal(since) || len(k.Doubted) != 1 {
			t.Fatalf("doubted since %s, and then %v", since, k.Doubted)
		}
	}
	if anew == 0 {
		t.Error("its rounds never began anew: this shows nothing")
	}
}
