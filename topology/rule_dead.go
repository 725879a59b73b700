package topology

import "slices"

// votedDead marks endpoints on nodes that their unit's vote calls dead (Snapshot.Dead):
// others come before them. None is marked where no other is as near, by any of the keys: a
// vote never empties a Service, and moves none to where only "*" leads, for what is far may be
// behind the uplink that is away. By which key the unit votes is not known here.
var votedDead = &rule{
	name:   "vote",
	reason: "its node is dead by the vote of its unit",
	only:   forTraffic,
	when:   func(q *question) bool { return len(q.dead) > 0 },
	arrange: func(q *question, tiers []tier) []tier {
		near := slices.ContainsFunc(tiers, func(t tier) bool { return t.key != AnyNode && slices.ContainsFunc(t.list, q.lives) })
		for _, t := range tiers {
			if !near && (t.key != AnyNode || !slices.ContainsFunc(t.list, q.lives)) {
				continue
			}
			for i := range t.list {
				t.list[i].dead = !q.lives(t.list[i])
			}
		}
		return tiers
	},
}

// lives reports whether no vote calls an endpoint's node dead.
func (e *evaluation) lives(c candidate) bool {
	_, dead := slices.BinarySearch(e.dead, c.Node)
	return !dead
}

// WithDead is the same state with these nodes dead by the vote of their unit; names that
// are no node's are left out. A state that is not believed to have any gives none.
func (s *Snapshot) WithDead(nodes []string) *Snapshot {
	dead := make([]string, 0, len(nodes))
	for _, name := range nodes {
		if _, known := s.Nodes.Get(name); known {
			dead = append(dead, name)
		}
	}
	slices.Sort(dead)
	if dead = slices.Compact(dead); slices.Equal(dead, s.Dead) {
		return s
	}
	with := *s
	with.Dead = dead
	return &with
}

// Death says of an endpoint that a vote concerns what becomes of it, for people; "" of
// others.
func (s *Snapshot) Death(e Target) string {
	_, dead := slices.BinarySearch(s.Dead, e.Node)
	switch {
	case e.Dead:
		return votedDead.reason + ": others come first"
	case dead:
		return votedDead.reason + ", as are all that are as near: it stays as it was"
	}
	return ""
}

// differ are the names that one of two sorted lists alone has.
func differ(a, b []string) (list []string) {
	for _, of := range [][2][]string{{a, b}, {b, a}} {
		for _, name := range of[0] {
			if _, both := slices.BinarySearch(of[1], name); !both {
				list = append(list, name)
			}
		}
	}
	return list
}
