package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/evidence"
	"github.com/gridmesh/gridmesh/health/shield"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/topology"
)

// How far stamps may be apart before that is a fault: who writes has a round, and its clock.
const (
	slack     = 30 * time.Second
	mostNamed = 5 // nodes in one text
)

func (m *maker) fault(object, field, format string, args ...any) {
	m.problems = append(m.problems, topology.Problem{Object: object, Field: field, Text: fmt.Sprintf(format, args...)})
}

func annotation(name string) string { return "metadata.annotations[" + name + "]" }

func (m *maker) verdictFault(node, text string) {
	m.fault("node "+node, annotation(names.NodeHealth), "%q is no verdict, and counts for none: true and false are; remove it, and who leads the unit writes one", cut(text))
}

func (m *maker) evidenceFault(node string, err error) {
	m.fault("node "+node, annotation(names.Evidence), "cannot be read, and that the node has no uplink is not known by it: %s; remove it, and who leads the unit writes one", cut(strings.TrimPrefix(err.Error(), evidence.ErrMalformed.Error()+": ")))
}

func (m *maker) entryFault(node, text string) {
	m.fault(m.list(), "data["+node+"]", "%q is no time of RFC 3339, and the node is not kept by it; remove it, and gridmesh-controller writes it anew", cut(text))
}

// list is how Problems name the list of shielded nodes.
func (m *maker) list() string { return "shield " + m.cfg.Namespace + "/" + names.Shield }

// cut bounds what others wrote.
func cut(text string) string {
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// verdictFaults are what is wrong between a verdict and what stands beside it.
func (m *maker) verdictFaults(s *seen, n *corev1.Node, e evidence.Evidence) {
	want := map[shield.Verdict]vote.Answer{shield.Well: vote.Yes, shield.Dead: vote.No}[s.is.Verdict]
	if got := vote.Decide(e.Of, e.Yes, e.No); e.Exact && want != vote.None && got != want && e.Of > 1 {
		m.fault("node "+n.Name, annotation(names.Evidence), "%d yes and %d no of %d do not make the verdict %q: who wrote it (%s) is of another version, or lies; look at who may write annotations of Nodes", e.Yes, e.No, e.Of, s.Says.Verdict, orNobody(cut(e.By)))
	}
	if n.Annotations[names.NodeUnhealthy] == "yes" && s.is.Verdict == shield.Well {
		m.fault("node "+n.Name, annotation(names.NodeUnhealthy), "says that it is dead, and %s that it is well: the one lags behind the other; remove it, unless gridmesh-health runs with --mirror-legacy-annotation, which does", names.NodeHealth)
	}
}

// nodeFaults are what is wrong between what is to become of a node, and what is done.
func (m *maker) nodeFaults(s *seen, u *seenUnit, action shield.Action) {
	object := "node " + s.Name
	// Who was voted dead before its unit fell silent stays as it was.
	if action.Keeps() && s.is.Verdict != shield.Dead && !s.evicts.IsZero() && m.now.Sub(s.evicts) >= slack && s.lost {
		m.fault(object, "spec.taints", "it is to be kept, and is tainted NoExecute, which evicts its pods: kubectl taint node %s %s:NoExecute- ; then see that the admission policies or the webhook are there, which keep that taint away, and gridmesh-controller, which takes it away", s.Name, corev1.TaintNodeUnreachable)
	}
	if action == shield.Suspect && !s.unseen && m.maySuspect(u) && m.now.Sub(s.is.Voted) >= slack {
		m.fault(object, "spec.taints", "%s is missing, though more than half of its unit do not see it: new pods are placed on it; %s", names.UnseenTaint, controllerCure)
	}
	if m.state.Shield == nil || !s.lost {
		return
	}
	// Of who was lost just now, or is to be kept for something that came just now, the list
	// may not tell yet.
	newly := m.now.Sub(s.is.Since) < slack
	switch {
	case action.Keeps() && !s.kept(m.now) && s.KeptUntil != nil:
		m.fault(m.list(), "data["+s.Name+"]", "counts no more, since %s, though the node is to be kept: nobody renews the list; %s", s.KeptUntil.Format(time.RFC3339), controllerCure)
	case action.Keeps() && s.KeptUntil == nil && !newly && len(m.state.Shield.Data) > 0:
		m.fault(m.list(), "data["+s.Name+"]", "is missing, though the node is lost and is to be kept (%s); %s", s.Why, controllerCure)
	case !action.Keeps() && s.kept(m.now) && s.KeptUntil.Sub(m.now) < m.cfg.Expiry-m.cfg.Renew-slack:
		m.fault(m.list(), "data["+s.Name+"]", "keeps the node until %s, though it is to be %s (%s): nobody renews the list; %s", s.KeptUntil.Format(time.RFC3339), strings.TrimPrefix(became[action], "it is "), s.Why, controllerCure)
	}
}

const controllerCure = "see that gridmesh-controller runs with --health-unit-key, and its log"

// listFaults are what is wrong with the list as a whole.
func (m *maker) listFaults(units []Unit) {
	if m.state.Shield == nil {
		m.notes = append(m.notes, "the list of shielded nodes is not known here: kubectl -n "+m.cfg.Namespace+" get "+shieldKind+" "+names.Shield+" -o yaml has it")
		return
	}
	var want []string
	old, oldest := 0, time.Time{}
	for _, u := range units {
		for _, n := range u.Nodes {
			keeps := n.Action == shield.Shield.String() || n.Action == shield.Hold.String() || n.Action == shield.HoldBound.String()
			if keeps && n.Cloud.Ready == string(corev1.ConditionUnknown) && n.Cloud.Since != nil && m.now.Sub(*n.Cloud.Since) >= slack {
				want = append(want, n.Name)
			}
			if n.KeptUntil != nil && keeps && n.KeptUntil.After(m.now) && n.KeptUntil.Sub(m.now) < m.cfg.Expiry-m.cfg.Renew-slack {
				if old++; oldest.IsZero() || n.KeptUntil.Before(oldest) {
					oldest = *n.KeptUntil
				}
			}
		}
	}
	switch {
	case len(m.state.Shield.Data) == 0 && len(want) > 0:
		m.fault(m.list(), "", "is not there, or empty, and these are to be kept: %s; %s", few(want), controllerCure)
	case old > 0:
		m.fault(m.list(), "", "was written last %s ago, and is to be written every %s: the nodes that it keeps (%d) it keeps until %s alone; %s",
			age(m.now.Sub(oldest.Add(-m.cfg.Expiry))), m.cfg.Renew, old, oldest.Format(time.RFC3339), controllerCure)
	}
}

// few are some names.
func few(list []string) string {
	text := strings.Join(list[:min(len(list), mostNamed)], ", ")
	if more := len(list) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (m *maker) leaseFault(l *coordinationv1.Lease, field, text string) {
	m.fault(leaseName(l), field, "%s", text)
}

func (m *maker) twoLeases(u *seenUnit, l *coordinationv1.Lease) {
	m.fault(leaseName(l), "metadata.labels["+names.UnitLease+"]", "says that it is of unit %s, as %s does: the one that was renewed later counts; delete the other", u.name, leaseName(u.lease))
}

// unitFaults are what is wrong with a unit.
func (m *maker) unitFaults(u *seenUnit) {
	if u.lease == nil || len(u.nodes) == 0 {
		return
	}
	if holder := u.leader.Node; holder != "" && !slices.ContainsFunc(u.nodes, func(s *seen) bool { return s.Name == holder }) {
		m.fault(leaseName(u.lease), "spec.holderIdentity", "%s is no node of unit %s, as the label %s has it: give Nodes, gridmesh-health and gridmesh-controller one label of units", cut(holder), u.name, m.cfg.UnitKey)
	}
	if silent := m.now.Sub(u.heard); silent > m.cfg.Rules.Doubt && u.alive > 0 {
		m.fault(leaseName(u.lease), "spec.renewTime", "was renewed last %s ago, though the cloud hears %d of %d nodes: nobody votes there any more, and nodes that are lost are left to Kubernetes; see that gridmesh-health runs on them, and its log", age(silent), u.alive, len(u.nodes))
	}
	if stamped := u.leader.Renewed; stamped != nil && stamped.Sub(m.now) > slack {
		m.ahead(leaseName(u.lease), *stamped)
	}
	for _, s := range u.nodes {
		if e := s.Says.Evidence; e != nil && e.At != nil && e.At.Sub(m.now) > slack {
			m.ahead("the evidence about node "+s.Name, *e.At)
		}
	}
}

// ahead notes a stamp of the future.
func (m *maker) ahead(what string, at time.Time) {
	m.notes = append(m.notes, fmt.Sprintf("the stamp of %s is %s ahead of the time that is reckoned with: the clock of who wrote it is wrong, or that time is; what it tells counts as of now", what, age(at.Sub(m.now))))
}

// clockNotes bounds what is said of clocks.
func (m *maker) clockNotes() {
	if more := len(m.notes) - mostNamed; more > 0 {
		m.notes = append(m.notes[:mostNamed:mostNamed], fmt.Sprintf("and %d more notes as these", more))
	}
}

// viewFaults are units whose nodes do not agree on who is in them (docs/adr/0019).
func (m *maker) viewFaults(list []*Matrix) {
	for _, x := range list {
		if len(x.Views) > 1 {
			m.fault("unit "+x.Unit, "view", "its nodes do not agree on who is in it, and each takes votes of those alone that it knows: %s; one without an uplink is given the list of one that has one, and one that was just moved or made anew is told by the cloud; where it lasts, see that all have the same --unit-key, and which of them reach the API server", few(x.Views))
		}
	}
}
