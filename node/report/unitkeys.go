package report

import (
	"fmt"
	"slices"
	"strings"

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

// maxUnitNotes bounds the keys that are named: every Service may have its own.
const maxUnitNotes = 5

// UnitNotes says which of the keys in use a node has no label of, where its labels are
// known, and which are a kubelet's to choose.
func UnitNotes(keys []string, of topology.Viewpoint) []string {
	notes := KubeletNotes(keys)
	if !of.Known {
		return notes
	}
	without := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { _, has := of.Values[key]; return has })
	if len(without) > 0 {
		notes = append(notes, fmt.Sprintf("the node has no label %s, which Services have in their topologyKeys: by them it reaches nobody; label it, if it is of such a unit", Few(without)))
	}
	return notes
}

// KubeletNotes are about keys that a kubelet may set. What makes a host of its own of
// every node is no unit.
func KubeletNotes(keys []string) (notes []string) {
	more := 0
	for _, key := range keys {
		switch {
		case key == "kubernetes.io/hostname" || !kubeletMaySet(key):
		case len(notes) == maxUnitNotes:
			more++
		default:
			notes = append(notes, fmt.Sprintf("the label %s may be set by every kubelet on its own Node: who holds a node's credentials can move it to another unit; a key under %s cannot be", key, restricted))
		}
	}
	if more > 0 {
		notes = append(notes, fmt.Sprintf("and %d more labels in use that a kubelet may set", more))
	}
	return notes
}
