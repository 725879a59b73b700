package vote

import (
	"maps"
	"slices"
	"time"
)

// The network's cloud: who has the Lease, what stands of each node, and who knows it.

// tell tells a node who is in its unit, and, one after another, what the cloud has of them, if it
// has an uplink.
func (s *network) tell(name string) {
	n := s.nodes[name]
	if n.dark {
		return
	}
	if n.cloud = s.view; !slices.Contains(s.names, name) {
		n.cloud = NewView(nil, 1)
	}
	s.step(name, Members{n.cloud})
	if n.cloud.Len() == 0 {
		return
	}
	for _, node := range s.names {
		s.mirror(name, node, s.lag)
	}
}

// understands reports whether a node takes what another one sends, as health/peer does: each
// knows the other by name and UID. A node knows itself.
func (s *network) understands(from, to string) bool {
	f, t := s.nodes[from].view, s.nodes[to].view
	return f.Has(from) && f.Has(to) && t.Has(from) && t.Has(to) && f.UID(from) == t.UID(from) && f.UID(to) == t.UID(to)
}

// adopt has a node that reports without an uplink vote by the list of who is reported to, which has
// one, as the daemon does.
func (s *network) adopt(name, from string) {
	n, other := s.nodes[name], s.nodes[from]
	if n.dark && !other.dark && s.now.Sub(other.synced) >= 30*time.Second && other.view.Has(name) && other.view.UID(name) == n.view.UID(name) {
		s.step(name, Members{other.view})
	}
}

// mirror has a node learn within some time what the cloud has of another then, if it has an
// uplink then.
func (s *network) mirror(name, node string, within time.Duration) {
	s.after(time.Duration(s.rng.Int64N(int64(within))), func() {
		if n := s.nodes[name]; !n.dead && !n.dark {
			a, _ := s.last(node)
			s.step(name, Cloud{node, !s.nodes[node].lost, a, s.lastCut(node), s.lastBy(node), time.Time{}})
		}
	})
}

// publish has all nodes learn what the cloud has of one.
func (s *network) publish(node string) {
	for _, name := range s.all {
		s.mirror(name, node, 500*time.Millisecond)
	}
}

// monitor is the cloud's own: who did not reach it for 50 s is NotReady.
func (s *network) monitor() {
	for _, name := range s.all {
		n := s.nodes[name]
		if !n.dead && !n.dark {
			n.posted = s.now
		}
		if lost := s.now.Sub(n.posted) >= 50*time.Second; lost != n.lost {
			n.lost = lost
			s.publish(name)
		}
	}
	s.after(time.Second, s.monitor)
}

// lease gives the unit's Lease for 20 s to one that may hold it, who counts it for 18, renews
// it each 10, and gives it back when it may not hold it any more. The others see within 4 s that
// it is old.
func (s *network) lease() {
	if n := s.nodes[s.holder]; n != nil && !n.dead && !n.dark && !n.stalled {
		switch {
		case !n.May(n.now(s)):
			s.step(s.holder, Lease{})
			s.holder = ""
		case s.now.Sub(s.renewed) >= 10*time.Second:
			s.give(s.holder)
		}
	}
	if s.now.Sub(s.renewed) >= 24*time.Second {
		s.holder = ""
	}
	for _, name := range s.view.Ranked() {
		if n := s.nodes[name]; !s.refused && s.holder == "" && !n.dead && !n.dark && !n.stalled && n.May(n.now(s)) {
			s.give(name)
		}
	}
	s.after(2*time.Second, s.lease)
}

func (s *network) give(name string) {
	s.holder, s.renewed = name, s.now
	s.step(name, Lease{s.nodes[name].now(s).Add(18 * time.Second)})
}

func (s *network) write(by string, w Write) {
	if s.nodes[by].dark {
		return // it does not know yet, and nothing of it gets there
	}
	if by != s.holder {
		s.t.Errorf("%s writes, and the Lease is %s's", by, s.holder)
	}
	if w.UID != s.uids[w.Node] {
		return // the API server knows no such node
	}
	if w.Verdict == No && (!w.Proof.Exact || !s.sizes[w.Proof.Of] || 2*w.Proof.No <= w.Proof.Of && w.Proof.Of > 2) {
		s.t.Errorf("%s is declared dead by %+v", w.Node, w.Proof)
	}
	if n := s.nodes[w.Node]; w.Verdict == No && !n.dead && !n.seen.IsZero() && s.now.Sub(n.seen) >= 30*time.Second {
		s.t.Errorf("%s lives and is seen, and is declared dead by %+v", w.Node, w.Proof)
	}
	switch before, _ := s.last(w.Node); {
	case w.Verdict == Yes && before == No && (!w.Proof.Exact || 2*w.Proof.Yes <= w.Proof.Of):
		s.t.Errorf("%s was declared dead, and is said to be well by %+v", w.Node, w.Proof)
	case w.Verdict == No && before != No:
		s.pay(by, w)
	case w.Verdict == Yes && before == No:
		s.revive(Member{w.Node, w.UID})
	}
	s.writes = append(s.writes, write{w, s.now.Sub(began), by})
	s.stands[Member{w.Node, w.UID}] = s.writes[len(s.writes)-1]
	s.publish(w.Node)
}

// pay counts the deaths of the last window, but those that were over before all were told what
// changes: who was not may lead, and say so to who writes. Of two each may lead, and who was
// in the dark until now declared somebody dead there, and is not told yet whom others did. Who did
// not hear that another one led counts nothing of what that one wrote.
func (s *network) pay(by string, w Write) {
	cfg, who, synced, known := Default(""), Member{w.Node, w.UID}, began, false
	for _, n := range s.nodes {
		if at := n.synced.Add(s.lag); at.After(synced) {
			synced = at
		}
	}
	s.deaths = slices.DeleteFunc(s.deaths, func(d *declared) bool {
		known = known || d.Member == who && s.now.Sub(d.at) < cfg.Window
		return d.Member == who || s.now.Sub(d.at) >= cfg.Window
	})
	s.deaths = append(s.deaths, &declared{Member: who, by: by, at: s.now})
	spent := 0
	for _, d := range s.deaths {
		n := s.nodes[by]
		told := n.budget.paid[d.Member] != nil || slices.Contains(n.leaders[:], d.by)
		if told && (d.over.IsZero() || d.over.After(synced)) {
			spent++
		}
	}
	most := slices.Max(slices.Collect(maps.Keys(s.sizes)))
	dark := s.now.Sub(s.nodes[by].synced) < cfg.Every
	if !known && !dark && len(s.names) > 2 && spent > max(1, int(cfg.Share*float64(most))) {
		s.t.Errorf("%s declares the death of %s, the last of %d in %s", by, w.Node, spent, cfg.Window)
	}
}

// revive ends the death of a node.
func (s *network) revive(who Member) {
	for _, d := range s.deaths {
		if d.Member == who && d.over.IsZero() {
			d.over = s.now
		}
	}
}

// last is the verdict that was written last of a node, and how long after a time.
func (s *network) last(node string) (a Answer, at time.Duration) {
	w := s.stands[Member{node, s.uids[node]}]
	return w.Verdict, w.at
}

// lastCut is whether what was written last of a node says that it has no uplink.
func (s *network) lastCut(node string) (cut bool) {
	for _, w := range s.writes {
		if w.Node == node && w.UID == s.uids[node] {
			cut = w.Cut
		}
	}
	return cut
}

// lastBy is who wrote that.
func (s *network) lastBy(node string) string { return s.stands[Member{node, s.uids[node]}].by }

func (s *network) dead() (list []string) {
	for _, name := range s.names {
		if a, _ := s.last(name); a == No {
			list = append(list, name)
		}
	}
	return list
}
