package cloud

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/health/shield"
)

// node is what is kept of a Node.
type node struct {
	uid      string
	unit     string // "" where it is in none
	ready    corev1.ConditionStatus
	since    time.Time // of that, by the controller manager's clock
	verdict  string    // annotation
	evidence string    // annotation
	by       string    // who wrote it, by its own word
	taints   []corev1.Taint
	voted    time.Time // when the API server took the annotations; zero where it does not say so
}

// keepNode makes what is kept of a Node whose unit is told by a label.
func keepNode(unitKey string) func(*corev1.Node) node {
	return func(n *corev1.Node) node {
		k := node{
			uid: string(n.UID), unit: n.Labels[unitKey], ready: corev1.ConditionUnknown,
			verdict: n.Annotations[names.NodeHealth], evidence: n.Annotations[names.Evidence], taints: n.Spec.Taints,
			voted: taken(n.ManagedFields, names.Evidence),
		}
		e, _ := evidence.Parse(k.evidence) // which gives the zero one with an error
		k.by = e.By
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				k.ready, k.since = c.Status, c.LastTransitionTime.Time
			}
		}
		return k
	}
}

// rewrites reports whether who wrote a vote wrote another one since: of each writer the newest counts. Another
// verdict on what it rests on already may be anybody's.
func (n node) rewrites(earlier node) bool {
	return n.by == earlier.by && n.uid == earlier.uid && (n.evidence != earlier.evidence || n.verdict == earlier.verdict)
}

// taken is when the API server last took a write of a field, by its own clock; zero where it
// does not say so.
func taken(managers []metav1.ManagedFieldsEntry, field string) (at time.Time) {
	for i := range managers {
		m := &managers[i]
		if m.Time != nil && m.FieldsV1 != nil && m.Time.After(at) && strings.Contains(m.FieldsV1.GetRawString(), `"f:`+field+`"`) {
			at = m.Time.Time
		}
	}
	return at
}

// renewal is what is kept of a renewal of a Lease.
type renewal struct {
	mark   string    // another one each time
	taken  time.Time // by the API server; zero where it does not say so
	holder string    // "" for nobody
}

// keepLease makes of a unit's Lease what changes when it is renewed.
func keepLease(l *coordinationv1.Lease) renewal {
	holder, renewed := "", ""
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	if l.Spec.RenewTime != nil {
		renewed = l.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	return renewal{holder + " " + renewed, taken(l.ManagedFields, "renewTime"), holder}
}

// seen is what was seen of a node over time.
type seen struct {
	node
	past shield.Node
	// own says that it was not ready by its own kubelet's word when it was lost: neither its
	// pods nor its taint are made better than that.
	own bool
	met bool // it was lost when it was found, and is since
}

// world is what is known of all nodes and units. It has one owner.
type world struct {
	cfg    shield.Config
	nodes  map[string]*seen
	lost   int // of these
	units  map[string]*unit
	listed map[string]bool // nodes that were kept when this one began
	met    bool            // all nodes that were there then are known
}

type unit struct {
	lease string
	past  shield.Unit
	nodes map[string]bool
}

func newWorld(c shield.Config, listed map[string]bool) *world {
	return &world{cfg: c, nodes: map[string]*seen{}, units: map[string]*unit{}, listed: listed}
}

func (w *world) unitOf(now time.Time, name string) *unit {
	u := w.units[name]
	if u == nil {
		u = &unit{nodes: map[string]bool{}}
		u.past.Vanished(now)
		w.units[name] = u
	}
	return u
}

// setNode takes a node as it is, or was meanwhile; gone where it is no more. It reports whether its unit is
// another than before.
func (w *world) setNode(now time.Time, name string, n node, gone bool) (moved bool) {
	was := w.nodes[name]
	if moved = was != nil && was.unit != ""; !gone {
		moved = n.unit != "" && was == nil || was != nil && was.unit != n.unit
	}
	if was != nil {
		u := w.units[was.unit]
		delete(u.nodes, name)
		if was.alive() {
			u.past.Alive--
		} else {
			w.lost--
		}
		defer w.tidy(was.unit)
	}
	if gone {
		delete(w.nodes, name)
		return moved
	}
	u := w.unitOf(now, n.unit)
	u.nodes[name] = true
	s := &seen{node: n}
	s.past = shield.Node{Lost: s.lost(), Since: n.since, Verdict: shield.VerdictOf(n.verdict)}
	s.past.Evidence, _ = evidence.Parse(n.evidence)
	if was != nil && was.uid == n.uid {
		voted := was.verdict != n.verdict || was.evidence != n.evidence
		s.met = s.lost() && was.met
		s.own = s.lost() && (was.own || was.ready == corev1.ConditionFalse)
		if s.past = was.past.Next(now, s.past, voted); voted {
			u.past.Voted(now, w.cfg)
		}
		if n.unit == "" { // of whom nobody decides, and so nothing is counted
			s.past.Waits = nil
		}
	} else {
		if s.past = shield.Found(now, s.past, n.voted, w.listed[name]); s.past.Kept {
			u.past.Again = now
		}
		s.past.Counts = s.past.Counts && !w.met // who spoke for its unit is known by now
		s.met = s.lost()
		delete(w.listed, name)
	}
	w.nodes[name] = s
	if s.alive() {
		u.past.Alive++
	} else {
		w.lost++
	}
	return moved
}

// setVersions takes what a node was since it was taken last, and is, the last; it is gone where there is
// none. Nobody hides by a write of its own what another one wrote just before.
func (w *world) setVersions(now time.Time, name string, versions []node) (moved bool) {
	if len(versions) == 0 {
		return w.setNode(now, name, node{}, true)
	}
	if !w.met { // what was written before this one began to look is found, however long that took
		versions = versions[len(versions)-1:]
	}
	for _, n := range versions {
		moved = w.setNode(now, name, n, false) || moved
	}
	return moved
}

// setLease takes a unit's Lease; gone where it is no more.
func (w *world) setLease(now time.Time, name string, lease renewal, gone bool) {
	u := w.unitOf(now, name)
	u.past.Held(now, lease.holder)
	switch {
	case gone:
		u.past.Vanished(now)
	case u.past.Heard.IsZero():
		u.lease = lease.mark
		u.past.Found(now, lease.taken)
	case lease.mark != u.lease || !u.past.Gone.IsZero():
		u.lease = lease.mark
		u.past.Renewed(now, lease.taken, w.cfg)
	}
	w.tidy(name)
}

// tidy forgets a unit that has nothing.
func (w *world) tidy(name string) {
	if u := w.units[name]; u != nil && len(u.nodes) == 0 && !u.past.Gone.IsZero() {
		delete(w.units, name)
	}
}

func (n *node) lost() bool  { return n.ready == corev1.ConditionUnknown }
func (n *node) alive() bool { return !n.lost() }

// lostFor is for how long the cloud has not heard a node; 0 where it does.
func (s *seen) lostFor(now time.Time) time.Duration {
	if s.alive() {
		return 0
	}
	return now.Sub(s.past.Since)
}

// meet notes what nodes that were found tell of each other, once all are.
func (w *world) meet(now time.Time) {
	w.met = true
	for _, u := range w.units {
		last := shield.Missed(now, func(yield func(shield.Node) bool) {
			for name := range u.nodes {
				if !yield(w.nodes[name].past) {
					return
				}
			}
		})
		for name := range u.nodes {
			s := w.nodes[name]
			s.past = s.past.Met(w.cfg, u.past, last)
		}
	}
}

// decided notes what was decided of a node, and whether that is sure.
func (w *world) decided(now time.Time, name string, a shield.Action, sure bool) {
	s := w.nodes[name]
	s.past = s.past.Decided(now, w.cfg, a, w.units[s.unit].past, sure)
}

// decide says what is to become of a node; told is since when one is told how nodes are.
func (w *world) decide(now time.Time, name string, told time.Time) (shield.Action, string) {
	s := w.nodes[name]
	if s.unit == "" {
		return shield.Nothing, "it is in no unit"
	}
	u := w.units[s.unit]
	is := u.past
	is.Told = told
	is.Nodes, is.Most = len(u.nodes), !shield.MayPart(w.lost, len(w.nodes))
	s.past = s.past.Counted(now, w.cfg, is)
	return shield.Decide(now, w.cfg, s.past, is)
}
