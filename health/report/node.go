package report

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/health/shield"
)

// Unknown is the action of a node where it cannot be known.
const Unknown = "unknown"

// Node is what is shown of a node.
type Node struct {
	Name  string `json:"name"`
	Says  Says   `json:"unitSays"`
	Cloud Cloud  `json:"cloud"`
	// Action is what is to become of it by the rules (shield.Action), or Unknown; Why the
	// reason.
	Action string `json:"action"`
	Why    string `json:"why"`
	// KeptUntil is until when its entry in the list of shielded nodes counts; nil without one.
	KeptUntil *time.Time `json:"keptUntil,omitempty"`
	// Next is what is to happen if nobody says anything new, in order.
	Next []Next `json:"next"`
	// Trouble: it is not as it should be.
	Trouble bool `json:"trouble"`
}

// Says is what the unit says of a node.
type Says struct {
	Verdict  string    `json:"verdict"` // well, dead, none
	Evidence *Evidence `json:"evidence,omitempty"`
}

// Verdicts, as they are shown.
const (
	Well = "well"
	Dead = "dead"
	None = "none"
)

// Evidence is what a verdict rests on.
type Evidence struct {
	Yes   int        `json:"yes"`
	No    int        `json:"no"`
	Of    int        `json:"of"`    // who were asked: all of the unit, or who observes the node
	Exact bool       `json:"exact"` // all of the unit
	Cut   bool       `json:"cut"`   // the node says that it has no uplink
	By    string     `json:"by,omitempty"`
	View  string     `json:"view,omitempty"`
	At    *time.Time `json:"at,omitempty"`
}

// Cloud is what the cloud believes of a node.
type Cloud struct {
	Ready     string     `json:"ready"` // the condition's status: True, False, Unknown
	Since     *time.Time `json:"since,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Heartbeat *time.Time `json:"heartbeat,omitempty"` // the last one
	Taints    []Taint    `json:"taints"`              // of the node's state alone
}

// Taint is one that says how a node is.
type Taint struct {
	Key    string     `json:"key"`
	Effect string     `json:"effect"`
	Since  *time.Time `json:"since,omitempty"`
}

// seen is a node, and what is decided by.
type seen struct {
	Node
	lost     bool
	is       shield.Node
	timeless bool      // its verdict has no time
	beat     time.Time // the last heartbeat
	evicts   time.Time // when the taint that evicts its pods was added; zero without one
	unseen   bool      // it has the taint names.UnseenTaint
}

// see takes what is known of a Node.
func (m *maker) see(n *corev1.Node) *seen {
	s := &seen{Node: Node{Name: n.Name, Next: []Next{}}}
	m.seeCloud(s, n)
	m.seeVerdict(s, n)
	if m.state.Shield == nil {
		return s
	}
	if text, ok := m.state.Shield.Data[n.Name]; ok {
		until, err := time.Parse(time.RFC3339, text)
		if err != nil {
			m.entryFault(n.Name, text)
			return s
		}
		s.KeptUntil = stamp(until)
		s.is.Kept = s.kept(m.now)
	}
	return s
}

// seeCloud takes what the cloud believes.
func (m *maker) seeCloud(s *seen, n *corev1.Node) {
	s.Cloud = Cloud{Ready: string(corev1.ConditionUnknown), Taints: []Taint{}}
	s.beat = m.beats[n.Name]
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		s.Cloud.Ready, s.Cloud.Reason, s.Cloud.Since = string(c.Status), c.Reason, stamp(c.LastTransitionTime.Time)
		if c.LastHeartbeatTime.After(s.beat) {
			s.beat = c.LastHeartbeatTime.Time
		}
		s.is.Since = m.past(c.LastTransitionTime.Time)
	}
	s.Cloud.Heartbeat = stamp(s.beat)
	s.lost = s.Cloud.Ready != string(corev1.ConditionTrue) && s.Cloud.Ready != string(corev1.ConditionFalse)
	if s.is.Lost = s.lost; s.lost {
		m.lost++
	}
	for _, t := range n.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != names.UnseenTaint {
			continue
		}
		s.unseen = s.unseen || t.Key == names.UnseenTaint
		shown := Taint{Key: t.Key, Effect: string(t.Effect)}
		if t.TimeAdded != nil {
			shown.Since = stamp(t.TimeAdded.Time)
		}
		s.Cloud.Taints = append(s.Cloud.Taints, shown)
		if t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady) {
			if s.evicts = m.now; t.TimeAdded != nil {
				s.evicts = t.TimeAdded.Time
			}
		}
	}
}

// seeVerdict takes what the unit says.
func (m *maker) seeVerdict(s *seen, n *corev1.Node) {
	text, ok := n.Annotations[names.NodeHealth]
	s.is.Verdict, s.Says.Verdict = shield.VerdictOf(text), None
	switch {
	case s.is.Verdict == shield.Well:
		s.Says.Verdict = Well
	case s.is.Verdict == shield.Dead:
		s.Says.Verdict = Dead
	case ok:
		m.verdictFault(n.Name, text)
	}
	s.timeless = true
	text, ok = n.Annotations[names.Evidence]
	if !ok {
		return
	}
	e, err := evidence.Parse(text)
	if err != nil {
		m.evidenceFault(n.Name, err)
		return
	}
	s.Says.Evidence = &Evidence{Yes: e.Yes, No: e.No, Of: e.Of, Exact: e.Exact, Cut: e.Cut, By: e.By, View: e.View, At: stamp(e.At)}
	s.is.Evidence = e
	if !e.At.IsZero() {
		s.timeless, s.is.Voted = false, m.past(e.At)
	}
	m.verdictFaults(s, n, e)
}

// stamp is a time as it is shown; nil where there is none.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

// decide says what is to become of a node at a time.
func (m *maker) decide(at time.Time, s *seen, u *seenUnit) (shield.Action, string) {
	is := shield.Unit{Heard: u.heard, Nodes: len(u.nodes), Alive: u.alive - m.missed(at, s, u), Most: !shield.MayPart(m.lost, len(m.state.Nodes))}
	if !u.heard.IsZero() && m.now.Sub(u.heard) <= m.cfg.Rules.Silent && at.After(m.now) {
		is.Heard = at // it goes on to be renewed
	}
	is.Holder = s.is.Evidence.By // where nobody says who spoke for the unit then
	if l := u.leader; l != nil && l.Node != "" {
		is.Holder, is.Before = l.Node, s.is.Evidence.By
		if l.Since != nil {
			is.Handed = *l.Since
		}
	}
	return shield.Decide(at, m.cfg.Rules, s.is, is)
}

// missed are other nodes of a unit that the cloud hears no longer at a later time, and has not missed
// yet: in an outage their heartbeats are late, one as the other, and it takes them for lost one
// after another.
func (m *maker) missed(at time.Time, of *seen, u *seenUnit) (n int) {
	if !at.After(m.now) {
		return 0
	}
	for _, s := range u.nodes {
		if s.Name != of.Name && !s.lost && !s.beat.IsZero() && m.now.Sub(s.beat) > late && !at.Before(s.beat.Add(m.cfg.Grace)) {
			n++
		}
	}
	return n
}

// kept reports whether its entry in the list counts at a time.
func (s *seen) kept(at time.Time) bool { return s.KeptUntil != nil && s.KeptUntil.After(at) }

// finish says what is to become of a node of a unit, and what is next.
func (m *maker) finish(s *seen, u *seenUnit) {
	if !m.leasesKnown() {
		s.Action, s.Why = Unknown, "the Leases of units are not known here"
		s.Trouble = s.lost || s.Says.Verdict == Dead
		return
	}
	action, why := m.decide(m.now, s, u)
	if s.timeless && s.is.Verdict != shield.None && s.lost && !action.Keeps() {
		if why = "its unit's verdict has no time, and how old it is is not known here"; s.kept(m.now) {
			action = shield.Shield
		}
	}
	if s.Cloud.Ready == string(corev1.ConditionFalse) && action == shield.Nothing {
		why = "the cloud hears it, and its own kubelet says that it is not ready" + inBrackets(s.Cloud.Reason)
	}
	s.Action, s.Why = action.String(), why
	s.Trouble = s.lost || action != shield.Nothing || s.Cloud.Ready != string(corev1.ConditionTrue)
	m.next(s, u, action)
	m.nodeFaults(s, u, action)
}

// leasesKnown reports whether there is anything to go by.
func (m *maker) leasesKnown() bool { return !m.state.Recorded || len(m.state.unitLeases()) > 0 }
