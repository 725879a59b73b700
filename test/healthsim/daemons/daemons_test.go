package daemons

import (
	"context"
	"flag"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var nodes = flag.Int("nodes", 100, "daemons of the unit")

// What a node sends does not depend on how many there are: ten dials and three reports a
// round, and their answers; the API server has the Lease's renewals, and a write for each
// verdict that changes. While a node is dead its evidence is renewed each minute.
func TestDaemons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newSite(ctx, t, *nodes)
		time.Sleep(3 * time.Minute)
		first := s.api.written()
		if first.verdicts != *nodes || first.same != 0 || first.took != 1 {
			t.Errorf("%d nodes begin: %d verdicts are written, %d of them again, and the Lease is taken %d times", *nodes, first.verdicts, first.same, first.took)
		}
		s.reset()
		time.Sleep(2 * time.Minute)
		s.steady(2 * time.Minute)

		dead := s.names[len(s.names)/2]
		if dead == s.api.holder() {
			dead = s.names[0]
		}
		s.nodes[dead].dead.Store(true)
		time.Sleep(50 * time.Second)
		s.nodes[dead].lost.Store(true)
		s.touch()
		time.Sleep(70 * time.Second)
		if w := s.api.written(); !slices.Equal(w.nodes, []string{dead}) || w.verdicts-w.same != 1 || w.same > 2 || w.took != 0 || s.api.verdict(dead) != "false" {
			t.Errorf("%s died: %+v is written, and there stands %q", dead, w, s.api.verdict(dead))
		}
		s.nodes[dead].dead.Store(false)
		s.nodes[dead].lost.Store(false)
		s.touch()
		time.Sleep(2 * time.Minute)
		if w := s.api.written(); !slices.Equal(w.nodes, []string{dead}) || w.verdicts-w.same != 1 || w.same > 1 || w.took != 0 || s.api.verdict(dead) != "true" {
			t.Errorf("%s is back: %+v is written, and there stands %q", dead, w, s.api.verdict(dead))
		}
		s.quits()
		s.reset()
		time.Sleep(2 * time.Minute)
		s.steady(2 * time.Minute)
		cancel()
		s.all.Wait()
	})
}

// quits has who holds the Lease lose its uplink: another one has it within seconds, for it is
// told. That the node has none is written with its verdict, which stays, and again each minute.
func (s *site) quits() {
	s.t.Helper()
	was := s.nodes[s.api.holder()]
	was.uplink(false)
	time.Sleep(5 * time.Second)
	if now := s.api.holder(); now == was.name {
		s.t.Errorf("%s has no uplink and the Lease, 5 s later", now)
	}
	time.Sleep(45 * time.Second)
	was.lost.Store(true)
	s.touch()
	time.Sleep(10 * time.Second)
	w := s.api.written()
	s.t.Logf("%s had the Lease, and loses its uplink: %+v is written", was.name, w)
	if !slices.Equal(w.nodes, []string{was.name}) || w.verdicts != w.same || w.same > 3 || w.took != 1 || s.api.verdict(was.name) != "true" {
		s.t.Errorf("%s had the Lease, and loses its uplink: %+v is written, and there stands %q", was.name, w, s.api.verdict(was.name))
	}
	was.lost.Store(false)
	was.uplink(true)
	s.touch()
	time.Sleep(2 * time.Minute)
	if w := s.api.written(); !slices.Equal(w.nodes, []string{was.name}) || w.verdicts != w.same || w.same > 2 || w.took != 0 {
		s.t.Errorf("%s has its uplink again: %+v is written", was.name, w)
	}
}

func (s *site) reset() {
	s.api.written()
	for _, n := range s.nodes {
		n.sent.Store(0)
	}
}

// steady holds what was sent and written while nothing happened.
func (s *site) steady(d time.Duration) {
	s.t.Helper()
	total := int64(0)
	for _, n := range s.nodes {
		total += n.sent.Load()
	}
	rounds := d.Seconds() / 10
	each := float64(total) / float64(len(s.nodes)) / rounds
	s.t.Logf("%d nodes: %.2f messages of each in a round", len(s.nodes), each)
	if want := 2 * (10 + 3.0); each < 0.95*want || each > 1.05*want {
		s.t.Errorf("a node sends %.2f messages in a round, want %.0f: ten dials, three reports and their answers", each, want)
	}
	w := s.api.written()
	s.t.Logf("in %s the API server has %d writes of the Lease and %d of verdicts", d, w.leases, w.verdicts)
	if renewals := int(d.Seconds() / 10); w.verdicts != 0 || w.took != 0 || w.leases < renewals-1 || w.leases > renewals+1 {
		s.t.Errorf("in %s, while nothing happened: %+v is written; the Lease is renewed every 10 s", d, w)
	}
}
