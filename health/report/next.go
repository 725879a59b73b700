package report

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/health/shield"
)

// Next is something that is to happen.
type Next struct {
	At   *time.Time `json:"at,omitempty"` // nil: for as long as nothing changes
	What string     `json:"what"`
}

// late is after how long a heartbeat is one that was missed: kubelets have 10 s.
const late = 20 * time.Second

// next says what is to happen to a node, if nobody says anything new.
func (m *maker) next(s *seen, u *seenUnit, action shield.Action) {
	add := func(at time.Time, format string, args ...any) {
		s.Next = append(s.Next, Next{stamp(at), fmt.Sprintf(format, args...)})
	}
	switch {
	case s.lost && action.Keeps() && s.taintGoes(m.now):
		add(time.Time{}, "its pods stay: gridmesh-controller takes away the taint that would evict them")
	case action.Keeps() && !s.evicts.IsZero():
		add(s.evicts.Add(m.cfg.Tolerated), "its pods are evicted, for it is tainted, unless the taint goes")
	case s.lost:
		m.changes(s, u, action, add)
	case s.Cloud.Ready != string(corev1.ConditionTrue):
		if !s.evicts.IsZero() {
			add(s.evicts.Add(m.cfg.Tolerated), "its pods are evicted, for it is tainted so, unless it is ready by then")
		}
	default:
		if action == shield.Suspect {
			add(time.Time{}, "its pods stay, and %s", m.placed(s, u))
		}
		if !s.beat.IsZero() && m.now.Sub(s.beat) > late {
			add(s.beat.Add(m.cfg.Grace), "the cloud takes it for lost, unless it is heard; %s", m.then(s, u, s.beat.Add(m.cfg.Grace)))
		}
	}
}

// taintGoes reports whether a taint that evicts pods was added just now, to a node that is kept:
// the controller takes it away, but from who was voted dead. If it stays a Problem says so.
func (s *seen) taintGoes(now time.Time) bool {
	return !s.evicts.IsZero() && now.Sub(s.evicts) < slack && s.is.Verdict != shield.Dead
}

// placed is whether anything new is placed on a node that is suspected.
func (m *maker) placed(s *seen, u *seenUnit) string {
	if s.unseen || m.maySuspect(u) {
		return "nothing new is placed on it until its unit sees it"
	}
	return "new ones are placed on it: too many nodes are said to be dead that the cloud hears, and that is more often a fault of who says it"
}

// maySuspect reports whether one more node of a unit may get nothing new.
func (m *maker) maySuspect(u *seenUnit) bool {
	return shield.MaySuspect(u.unseen, len(u.nodes), m.unseen, len(m.state.Nodes))
}

// then is what is to become of a node if it is lost at a time.
func (m *maker) then(s *seen, u *seenUnit, at time.Time) string {
	if at.Before(m.now) {
		at = m.now
	}
	lost := *s
	lost.is.Lost, lost.is.Since = true, at
	unit := *u
	unit.alive--
	action, _ := m.decide(at, &lost, &unit)
	return "then " + became[action]
}

// became is what an action is, said of a node.
var became = map[shield.Action]string{
	shield.Nothing:   "it is left to Kubernetes",
	shield.Shield:    "it is shielded",
	shield.Hold:      "it is held",
	shield.HoldBound: "it is held for the pods alone that are bound to its unit, and the others go",
	shield.Suspect:   "it is suspected",
	shield.Evict:     "it is given up",
}

// changes are the times at which something else becomes of a lost node, only because what is
// known gets older, and what comes of that.
func (m *maker) changes(s *seen, u *seenUnit, action shield.Action, add func(at time.Time, format string, args ...any)) {
	if !action.Keeps() {
		m.ends(s, action, m.now, add)
		return
	}
	c := m.cfg.Rules
	at := []time.Time{s.is.Voted.Add(c.Fresh), s.is.Voted.Add(c.Fresh + c.HoldVerdict), u.heard.Add(c.Silent), u.heard.Add(c.Doubt)}
	if c.Autonomy > 0 {
		at = append(at, s.is.Since.Add(c.Autonomy))
	}
	slices.SortFunc(at, time.Time.Compare)
	unless := ", unless its unit votes anew"
	if m.now.Sub(u.heard) > c.Silent {
		unless = ", unless its unit's Lease is renewed"
	}
	for _, t := range at {
		if t.Before(m.now) {
			continue
		}
		next, why := m.decide(t.Add(time.Nanosecond), s, u)
		if next == action {
			continue
		}
		add(t, "%s%s: %s", became[next], unless, why)
		unless = "" // what follows comes of the first
		if action = next; !action.Keeps() {
			m.ends(s, action, t, add)
			return
		}
	}
	if len(s.Next) == 0 {
		add(time.Time{}, "nothing, for as long as that is so")
	}
}

// ends says when the pods of a node go that nothing keeps from a time on.
func (m *maker) ends(s *seen, action shield.Action, from time.Time, add func(at time.Time, format string, args ...any)) {
	tainted := s.evicts
	switch {
	case !tainted.IsZero():
	case action == shield.Evict:
		add(time.Time{}, "Kubernetes, or gridmesh-controller 10s later, taints it; of a unit one node each 10s, and no more than half of it")
		tainted = from
	default:
		add(time.Time{}, "Kubernetes taints it, when its turn comes")
		tainted = from
	}
	gone := tainted.Add(m.cfg.Tolerated)
	switch {
	case s.evicts.IsZero():
		add(gone, "its pods are evicted, at the earliest")
	case gone.After(m.now):
		add(gone, "its pods are evicted")
	default:
		add(gone, "its pods are evicted, and were from then on")
	}
}
