package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/internal/table"
	"github.com/gridmesh/gridmesh/topology"
)

// kubeletLabels are the labels of Kubernetes that a kubelet may set on its own
// Node, and kubeletPrefixes the folders of such (KEP-279).
var (
	kubeletLabels = []string{
		"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
		"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
		"failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
		"topology.kubernetes.io/region", "topology.kubernetes.io/zone",
	}
	kubeletPrefixes = []string{"kubelet.kubernetes.io", "node.kubernetes.io"}
)

// restricted is where labels are that no kubelet may set.
const restricted = "node-restriction.kubernetes.io/"

// kubeletMaySet reports whether a kubelet may give its own Node this label, and
// with it another unit: the admission plugin NodeRestriction keeps it from
// those of Kubernetes' own that are not named above.
func kubeletMaySet(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	if prefix == key {
		return true
	}
	within := func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) }
	if !within("kubernetes.io") && !within("k8s.io") {
		return true
	}
	return slices.Contains(kubeletLabels, key) || slices.ContainsFunc(kubeletPrefixes, within)
}

// UnitKeys is how a node stands to the keys that Services use. Those that no node has are
// left out: that is a Problem of their Services, and no matter of a node.
type UnitKeys struct {
	InUse   []string // sorted
	Without []string // of these the node, where it is known, has no value
	// Lost are of Without: most other nodes have one, Services are refused here for it, and
	// the node is in no other unit. So it is by mistake.
	Lost []string

	noted []string // of Without: it may be on purpose
}

// controlPlane is the label of nodes that are in no unit more often than not.
const controlPlane = "node-role.kubernetes.io/control-plane"

// LabelIndex counts the nodes that have a value of each label, as snapshots go by.
type LabelIndex struct {
	nodes   *table.Map[string, *topology.Node]
	partial bool
	have    map[string]int
}

// Next takes a snapshot.
func (x *LabelIndex) Next(s *topology.Snapshot) {
	if x.have == nil {
		x.have = map[string]int{}
	}
	for name := range x.nodes.Changed(s.Nodes) {
		was, _ := x.nodes.Get(name)
		is, _ := s.Nodes.Get(name)
		x.count(was, -1)
		x.count(is, 1)
	}
	x.nodes, x.partial = s.Nodes, s.Partial
}

// count counts the labels of a node that came, or with n < 0 went.
func (x *LabelIndex) count(node *topology.Node, n int) {
	if node == nil {
		return
	}
	for key, value := range node.Labels {
		if value == "" { // no unit
			continue
		}
		if x.have[key] += n; x.have[key] == 0 {
			delete(x.have, key)
		}
	}
}

// OfSome are the keys that some node has; of a snapshot without all nodes, all of them.
func (x *LabelIndex) OfSome(keys []string) []string {
	if x.partial || x.nodes.Len() == 0 {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return x.have[key] == 0 })
}

// Of is how the node of a view of the last snapshot stands to the keys.
func (x *LabelIndex) Of(v *topology.View) UnitKeys {
	u := UnitKeys{InUse: x.OfSome(v.KeysInUse)}
	own, known := x.nodes.Get(v.Viewpoint.Name)
	if !known {
		return u
	}
	for _, key := range u.InUse {
		if own.Labels[key] != "" {
			continue
		}
		u.Without = append(u.Without, key)
		if _, onPurpose := own.Labels[key]; !onPurpose { // an empty one
			u.noted = append(u.noted, key)
		}
	}
	u.Lost = x.lost(v, own, u.noted)
	u.noted = slices.DeleteFunc(u.noted, func(key string) bool { return slices.Contains(u.Lost, key) })
	return u
}

// lost are those of the keys of which a node has no label by mistake.
func (x *LabelIndex) lost(v *topology.View, own *topology.Node, lacks []string) []string {
	if _, apart := own.Labels[controlPlane]; apart {
		return nil
	}
	others := x.nodes.Len() - 1
	lost := slices.DeleteFunc(slices.Clone(lacks), func(key string) bool { return 2*x.have[key] <= others })
	if len(lost) == 0 {
		return nil
	}
	refused, placed := x.refusals(v, own)
	if placed {
		return nil
	}
	return slices.DeleteFunc(lost, func(key string) bool { return !refused[key] })
}

// given reports whether a label is one of those that kubelets and providers give their Nodes, and
// most have: it says nothing of a unit.
func (x *LabelIndex) given(key string) bool {
	return slices.Contains(kubeletLabels, key) && 2*x.have[key] > x.nodes.Len()
}

// refusals are the keys of closed Services that the node has a value of none of. Where it
// has a label of a key of one it is placed: in a unit, or in none on purpose. Who writes a
// Service with another key, as one closed to shops, makes no plant unfit by that.
func (x *LabelIndex) refusals(v *topology.View, own *topology.Node) (refused map[string]bool, placed bool) {
	has := func(key string) bool { _, there := own.Labels[key]; return there }
	unit := func(key string) bool { return has(key) && !x.given(key) }
	refused = map[string]bool{}
	for _, s := range v.Services.All() {
		switch {
		case !s.Keys.Closed():
		case slices.ContainsFunc(s.Keys.List, unit):
			return nil, true
		case !slices.ContainsFunc(s.Keys.List, has):
			for _, key := range s.Keys.List {
				refused[key] = true
			}
		}
	}
	return refused, false
}

// Fault says of the node, by its name, what is lost and the cure; "" where nothing is.
func (u *UnitKeys) Fault(node string) string {
	if len(u.Lost) == 0 {
		return ""
	}
	return fmt.Sprintf("has no label %s, which most other nodes have, and none of another unit: it reaches no Service that is closed by it; "+
		"where it is in no unit of the kind on purpose, say so by an empty value (kubectl label node %s %s=), else label it (%[3]s=UNIT)", Few(u.Lost), node, u.Lost[0])
}

// Notes say which keys a kubelet may set, and which the node has no label of; what is by
// mistake is a finding.
func (u *UnitKeys) Notes() (notes []string) {
	if note := KubeletNote(u.InUse); note != "" {
		notes = append(notes, note)
	}
	if len(u.noted) > 0 {
		notes = append(notes, fmt.Sprintf("the node has no label %s, which Services have in their topologyKeys: by them it reaches nobody; label it, if it is of such a unit", Few(u.noted)))
	}
	return notes
}

// KubeletNote is about keys that a kubelet may set; "" where there are none. What makes a host of
// its own of every node is no unit.
func KubeletNote(keys []string) string {
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == "kubernetes.io/hostname" || !kubeletMaySet(key) })
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("every kubelet may set the label %s on its own Node, and so move it to another unit; one under %s it may not", Few(keys), restricted)
}
