package source

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/topology"
)

// named reports whether an object of a kind that is read has a name, and tells of a
// name that no API server takes.
func (m *manifests) named(h *head, at origin) bool {
	if !isRead(h.APIVersion, h.Kind) {
		return true
	}
	name, namespace := h.Metadata.Name, h.Metadata.Namespace
	if name == "" {
		m.torn(strings.ToLower(h.Kind)+" ("+at.place+")", "metadata.name", "is missing, and the object is left out; give it one")
		return false
	}
	const illegal = "is no legal name, and an API server refuses the object; write lower case letters, digits"
	const label = illegal + " and '-', a letter or digit first and last, 63 at most"
	switch {
	case h.Kind == "Service": // before Kubernetes 1.36 it may not begin with a digit, either (KEP-5311)
		if len(validation.IsDNS1123Label(name)) > 0 {
			m.fault(at.String(), "metadata.name", label)
		}
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		m.fault(at.String(), "metadata.name", illegal+", '-' and '.', a letter or digit first, last and beside a '.', 253 at most")
	}
	if namespace != "" && h.Kind != "Node" && h.Kind != "ServiceCIDR" && len(validation.IsDNS1123Label(namespace)) > 0 {
		m.fault(at.String(), "metadata.namespace", label)
	}
	return true
}

// podRanges tells of a Node's that are none, by the field that counts.
func (m *manifests) podRanges(at origin, n *corev1.NodeSpec) {
	if m.ranges(at, "spec.podCIDRs", n.PodCIDRs); len(n.PodCIDRs) == 0 && n.PodCIDR != "" {
		m.ranges(at, "spec.podCIDR", []string{n.PodCIDR})
	}
}

// ranges tells of those that are none, and so are left out.
func (m *manifests) ranges(at origin, field string, texts []string) {
	for _, text := range texts {
		if _, err := netip.ParsePrefix(text); err != nil {
			m.refuse(at, field, "%q is no range of addresses and is left out; write one as 10.96.0.0/16 or fd00::/108", text)
		}
	}
}

// refusedOf notes that no API server takes an object, where one of its Problems is of that.
func (m *manifests) refusedOf(at origin, problems []topology.Problem) {
	if slices.ContainsFunc(problems, func(p topology.Problem) bool { return p.Loss == topology.LostValue }) {
		m.refuses(at)
	}
}
