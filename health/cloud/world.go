package cloud

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/health/shield"
)

// node is what is kept of a Node.
type node struct {
	uid      string
	unit     string // "" where it is in none
	ready    corev1.ConditionStatus
	verdict  string // annotation
	evidence string // annotation
	taints   []corev1.Taint
}

// keepNode makes what is kept of a Node whose unit is told by a label.
func keepNode(unitKey string) func(*corev1.Node) node {
	return func(n *corev1.Node) node {
		k := node{
			uid: string(n.UID), unit: n.Labels[unitKey], ready: corev1.ConditionUnknown,
			verdict: n.Annotations[names.NodeHealth], evidence: n.Annotations[names.Evidence], taints: n.Spec.Taints,
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				k.ready = c.Status
			}
		}
		return k
	}
}

// keepLease makes of a unit's Lease what changes when it is renewed.
func keepLease(l *coordinationv1.Lease) string {
	holder, renewed := "", ""
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	if l.Spec.RenewTime != nil {
		renewed = l.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	return holder + " " + renewed
}

// seen is what was seen of a node over time.
type seen struct {
	node
	proof evidence.Evidence // the zero one where it cannot be read
	since time.Time         // it is lost, as far as was seen here
	voted time.Time         // when its evidence was last seen to change, or was found
	found bool              // it was there when the node was first seen, and did not change
}

// world is what is known of all nodes and units. It has one owner.
type world struct {
	nodes map[string]*seen
	units map[string]*unit
}

type unit struct {
	lease string
	heard time.Time // zero: it has no Lease
	nodes map[string]bool
	alive int
}

func newWorld() *world { return &world{nodes: map[string]*seen{}, units: map[string]*unit{}} }

func (w *world) unitOf(name string) *unit {
	u := w.units[name]
	if u == nil {
		u = &unit{nodes: map[string]bool{}}
		w.units[name] = u
	}
	return u
}

// setNode takes a node as it is; gone where it is no more. It reports whether its unit is
// another than before.
func (w *world) setNode(now time.Time, name string, n node, gone bool) (moved bool) {
	was := w.nodes[name]
	if moved = was != nil && was.unit != ""; !gone {
		moved = n.unit != "" && was == nil || was != nil && was.unit != n.unit
	}
	if was != nil {
		u := w.unitOf(was.unit)
		delete(u.nodes, name)
		if was.alive() {
			u.alive--
		}
		w.tidy(was.unit)
	}
	if gone {
		delete(w.nodes, name)
		return moved
	}
	s := &seen{node: n, since: now, voted: now, found: true}
	s.proof, _ = evidence.Parse(n.evidence) // which gives the zero one with an error
	if was != nil && was.uid == n.uid {
		if was.lost() {
			s.since = was.since
		}
		if s.found = false; was.verdict == n.verdict && was.evidence == n.evidence {
			s.voted, s.found = was.voted, was.found
		}
	}
	w.nodes[name] = s
	u := w.unitOf(n.unit)
	u.nodes[name] = true
	if s.alive() {
		u.alive++
	}
	return moved
}

// setLease takes a unit's Lease; gone where it is no more.
func (w *world) setLease(now time.Time, name, lease string, gone bool) {
	u := w.unitOf(name)
	switch {
	case gone:
		u.lease, u.heard = "", time.Time{}
	case lease != u.lease || u.heard.IsZero():
		u.lease, u.heard = lease, now
	}
	w.tidy(name)
}

// tidy forgets a unit that has nothing.
func (w *world) tidy(name string) {
	if u := w.units[name]; u != nil && len(u.nodes) == 0 && u.heard.IsZero() {
		delete(w.units, name)
	}
}

func (n *node) lost() bool  { return n.ready == corev1.ConditionUnknown }
func (n *node) alive() bool { return !n.lost() }

// decide says what is to become of a node.
func (w *world) decide(now time.Time, c shield.Config, name string) (shield.Action, string) {
	s := w.nodes[name]
	if s.unit == "" {
		return shield.Nothing, "it is in no unit"
	}
	u := w.units[s.unit]
	n := shield.Node{Lost: s.lost(), Since: s.since, Voted: s.voted, Found: s.found, Verdict: verdict(s.verdict), Evidence: s.proof}
	return shield.Decide(now, c, n, shield.Unit{Heard: u.heard, Nodes: len(u.nodes), Alive: u.alive})
}

func verdict(annotation string) shield.Verdict {
	switch annotation {
	case "true":
		return shield.Well
	case "false":
		return shield.Dead
	}
	return shield.None
}
