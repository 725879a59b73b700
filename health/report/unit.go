package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/health/shield"
)

// Unit is what is shown of a unit.
type Unit struct {
	Name  string `json:"name"`
	Size  int    `json:"size"`  // nodes, of which Nodes may be some
	Ready int    `json:"ready"` // those that the cloud calls so
	// Voters are who answered in the newest vote of the whole unit; nil where none is known.
	Voters *Voters `json:"voters,omitempty"`
	Leader *Leader `json:"leader,omitempty"` // nil without a Lease
	Uplink string  `json:"uplink"`           // yes, no, unknown
	// State is ok, dark (no uplink), no votes, unknown, or how many nodes are not as they
	// should be.
	State   string `json:"state"`
	Trouble bool   `json:"trouble"`
	Nodes   []Node `json:"nodes"`

	object string // as Problems name its Lease
}

// Voters are who answered.
type Voters struct {
	Answered int        `json:"answered"`
	Of       int        `json:"of"`
	At       *time.Time `json:"at,omitempty"`
}

// Leader is who holds the unit's Lease, and so has an uplink and writes its verdicts.
type Leader struct {
	Node    string     `json:"node"` // "" where it was given back
	Renewed *time.Time `json:"renewed,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	Changes int        `json:"changes"` // how often another one took over
}

// Uplinks of a unit, and states beside those that are counts.
const (
	Yes     = "yes"
	No      = "no"
	OK      = "ok"
	Dark    = "dark"
	NoVotes = "no votes"
)

// seenUnit is a unit, and what is decided by.
type seenUnit struct {
	name   string
	nodes  []*seen
	alive  int
	unseen int       // nodes with names.UnseenTaint
	heard  time.Time // when its Lease was renewed, at most now; zero without one
	lease  *coordinationv1.Lease
	leader *Leader
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func leaseName(l *coordinationv1.Lease) string { return "lease " + l.Namespace + "/" + l.Name }

// lease takes a unit's Lease: of two that are renewed the one that was later.
func (m *maker) lease(u *seenUnit, l *coordinationv1.Lease) {
	renewed := time.Time{}
	if l.Spec.RenewTime != nil {
		renewed = l.Spec.RenewTime.Time
	}
	if u.lease != nil {
		m.twoLeases(u, l)
		if !renewed.After(u.lease.Spec.RenewTime.Time) {
			return
		}
	}
	if l.Spec.RenewTime == nil {
		m.leaseFault(l, "spec.renewTime", "is missing, and it counts for none; delete it, and the unit makes another")
		return
	}
	u.lease, u.heard = l, m.past(renewed)
	u.leader = &Leader{Node: holderOf(l), Renewed: stamp(renewed)}
	if l.Spec.AcquireTime != nil {
		u.leader.Since = stamp(l.Spec.AcquireTime.Time)
	}
	if l.Spec.LeaseTransitions != nil {
		u.leader.Changes = int(*l.Spec.LeaseTransitions)
	}
}

// unit is what is shown of a unit.
func (m *maker) unit(u *seenUnit) Unit {
	out := Unit{Name: u.name, Size: len(u.nodes), Leader: u.leader, Nodes: []Node{}}
	if u.lease != nil {
		out.object = leaseName(u.lease)
	}
	for _, s := range u.nodes {
		m.finish(s, u)
		if s.Cloud.Ready == string(corev1.ConditionTrue) {
			out.Ready++
		}
		out.Voters = newer(out.Voters, s.Says.Evidence)
		out.Nodes = append(out.Nodes, s.Node)
	}
	slices.SortFunc(out.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(a.Trouble), rank(b.Trouble)), strings.Compare(a.Name, b.Name))
	})
	out.Uplink, out.State = m.stateOf(u, out.Nodes)
	out.Trouble = out.State != OK && (out.State != NoVotes || len(u.nodes) > u.alive)
	m.unitFaults(u)
	return out
}

// newer is the newest vote of a whole unit.
func newer(v *Voters, e *Evidence) *Voters {
	if e == nil || !e.Exact || v != nil && (e.At == nil || v.At != nil && !e.At.After(*v.At)) {
		return v
	}
	return &Voters{e.Yes + e.No, e.Of, e.At}
}

// stateOf says whether a unit has an uplink, and how it is.
func (m *maker) stateOf(u *seenUnit, nodes []Node) (uplink, state string) {
	silent := m.now.Sub(u.heard)
	switch {
	case !m.leasesKnown():
		return Unknown, Unknown
	case u.heard.IsZero():
		return Unknown, counts(nodes, NoVotes)
	case silent > m.cfg.Rules.Doubt && u.alive > 0:
		return Unknown, counts(nodes, NoVotes)
	case silent > m.cfg.Rules.Silent:
		return No, counts(nodes, Dark)
	}
	return Yes, counts(nodes, "")
}

// counts are how many nodes are not as they should be, after a word that goes before.
func counts(nodes []Node, before string) string {
	n := map[string]int{}
	for i := range nodes {
		if node := &nodes[i]; node.Trouble {
			n[node.word()]++
		}
	}
	var parts []string
	for _, word := range words {
		if n[word] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[word], word))
		}
	}
	switch text := strings.Join(parts, ", "); {
	case text == "" && before == "":
		return OK
	case text == "":
		return before
	case before == "":
		return text
	default:
		return before + ": " + text
	}
}

// words are what becomes of nodes, the worst first.
var words = []string{"given up", "lost", "suspected", "not ready", "unknown", "held", "shielded"}

// word is what becomes of a node that is not as it should be.
func (n *Node) word() string {
	switch n.Action {
	case shield.Evict.String():
		return "given up"
	case shield.Suspect.String():
		return "suspected"
	case shield.Hold.String(), shield.HoldBound.String():
		return "held"
	case shield.Shield.String():
		return "shielded"
	case Unknown:
		return "unknown"
	}
	if n.Cloud.Ready == string(corev1.ConditionFalse) {
		return "not ready"
	}
	return "lost"
}
