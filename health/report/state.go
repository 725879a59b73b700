package report

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health/evidence"
)

// heartbeats is the namespace of kubelets' Leases.
const heartbeats = corev1.NamespaceNodeLease

// State is what is known: as an API server has it now, or had it when it was recorded.
type State struct {
	Nodes []corev1.Node
	// Leases are those of units, by the label names.UnitLease, and those of kubelets.
	Leases []coordinationv1.Lease
	// Shield is the list of shielded nodes; nil where nobody says what is on it.
	Shield *Shield
	// Told is what daemons said of themselves.
	Told []NodeStatus
	// Recorded: a state without any Lease of a unit may only lack them.
	Recorded bool
}

// Shield is the list of shielded nodes: name -> until when (RFC 3339). It is nil where a
// cluster has none.
type Shield struct{ Data map[string]string }

// unitLeases are the Leases of units.
func (s *State) unitLeases() (list []*coordinationv1.Lease) {
	for i := range s.Leases {
		if l := &s.Leases[i]; l.Labels[names.UnitLease] != "" {
			list = append(list, l)
		}
	}
	return list
}

// Newest is the newest stamp of a state, which is about when it was recorded, and what has it.
// Times until which something counts are none.
func (s *State) Newest() (at time.Time, of string) {
	take := func(t time.Time, what string) {
		if t.After(at) {
			at, of = t, what
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, c := range n.Status.Conditions {
			take(c.LastHeartbeatTime.Time, "node "+n.Name)
			take(c.LastTransitionTime.Time, "node "+n.Name)
		}
		for _, t := range n.Spec.Taints {
			if t.TimeAdded != nil {
				take(t.TimeAdded.Time, "node "+n.Name)
			}
		}
		if e, err := evidence.Parse(n.Annotations[names.Evidence]); err == nil {
			take(e.At, "the evidence about node "+n.Name)
		}
		for _, f := range n.ManagedFields {
			if f.Time != nil {
				take(f.Time.Time, "node "+n.Name)
			}
		}
	}
	for i := range s.Leases {
		if l := &s.Leases[i]; l.Spec.RenewTime != nil {
			take(l.Spec.RenewTime.Time, "lease "+l.Namespace+"/"+l.Name)
		}
	}
	for i := range s.Told {
		take(s.Told[i].At, "what node "+s.Told[i].Node+" said")
	}
	return at.UTC(), of
}
