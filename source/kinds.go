package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/near"
)

// grids and others are what gridmesh reads of manifests, by kind, and the
// apiVersion in which it does. The kinds of grids are nobody else's.
var (
	gridVersion  = names.SuperEdgeDomain + "/v1"
	grids        = []string{"DeploymentGrid", "StatefulSetGrid", "ServiceGrid"}
	tableVersion = names.NodeTableGroup + "/" + names.NodeTableVersion
	others       = map[string][]string{
		"Service": {"v1"}, "Node": {"v1"}, "EndpointSlice": {"discovery.k8s.io/v1"},
		"ServiceCIDR": {"networking.k8s.io/v1", "networking.k8s.io/v1beta1"}, // of Kubernetes 1.31 and 1.32
	}
)

// mistaken says of a document's head what is wrong with it, and which kind is meant
// where that is known: no text where it is of a kind that is read, or that is none of our
// business.
func mistaken(apiVersion, kind string) (meant, field, text string) {
	switch {
	case kind == "" && apiVersion == "":
		return "", "kind", "is missing, as is apiVersion; the document is left out"
	case kind == "":
		return "", "kind", "is missing; the document is left out"
	case apiVersion == "":
		return kind, "apiVersion", "is missing; the document is left out"
	}
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group = ""
	}
	for _, name := range grids {
		if alike(kind, name) {
			field, text = differs(apiVersion, kind, []string{gridVersion}, name)
			return name, field, text
		}
	}
	if group == names.NodeTableGroup && alike(kind, names.NodeTableKind) {
		field, text = differs(apiVersion, kind, []string{tableVersion}, names.NodeTableKind)
		return names.NodeTableKind, field, text
	}
	if group == names.SuperEdgeDomain || group == names.Domain {
		return kind, "kind", fmt.Sprintf("%s has no %s; the document is left out: there are %s, of %s, and %s, of %s", apiVersion, kind, strings.Join(grids, ", "), gridVersion, names.NodeTableKind, tableVersion)
	}
	for name, versions := range others {
		if alike(kind, name) && builtIn(group) {
			field, text = differs(apiVersion, kind, versions, name)
			return name, field, text
		}
	}
	return kind, "", ""
}

// listed reports whether a document is a List by a name that is none, and tells of it: any
// object may be in it.
func (m *manifests) listed(place string, h *head) bool {
	group, _, _ := strings.Cut(h.APIVersion, "/")
	meant := alike(h.Kind, "List") && builtIn(group)
	holds := h.Kind != "" && !isRead(h.APIVersion, h.Kind) && slices.ContainsFunc(h.Items, isObject)
	if !meant && !holds {
		return false
	}
	what := "is not known"
	if !meant {
		what += ", and has objects in its items"
	}
	m.torn(place, "kind", "%s%s %s; the document is left out: write List, which seems meant", h.Kind, m.original.line(place, "kind"), what)
	return true
}

// misnamed is the key of a List that is nearly items, where there are none; "" for no such.
func misnamed(raw []byte, items []runtime.RawExtension) string {
	var keys map[string]any
	if len(items) > 0 || json.UnmarshalCaseSensitivePreserveInts(raw, &keys) != nil {
		return ""
	}
	if _, there := keys["items"]; there {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if near.Slips(strings.ToLower(key), "items", 2) <= 2 {
			return key
		}
	}
	return ""
}

// isObject reports whether an item is one that could be a document of its own.
func isObject(item runtime.RawExtension) bool {
	var t metav1.TypeMeta
	return json.UnmarshalCaseSensitivePreserveInts(item.Raw, &t) == nil && t.Kind != "" && t.APIVersion != ""
}

// isRead reports whether gridmesh reads objects of a kind.
func isRead(apiVersion, kind string) bool {
	return slices.Contains(others[kind], apiVersion) || apiVersion == gridVersion && slices.Contains(grids, kind) || apiVersion == tableVersion && kind == names.NodeTableKind
}

// differs says in what a document's head differs from what is read.
func differs(apiVersion, kind string, versions []string, name string) (field, text string) {
	switch {
	case !slices.Contains(versions, apiVersion):
		return "apiVersion", fmt.Sprintf("%s has no %s that is read here; the document is left out: write apiVersion: %s", apiVersion, name, versions[0])
	case kind != name:
		return "kind", fmt.Sprintf("%s is none; the document is left out: write kind: %s", kind, name)
	}
	return "", ""
}

// alike reports whether a kind is written as another, but for case, number, and two slips;
// in a short one one, for Role is no Node.
func alike(kind, name string) bool {
	kind, name = strings.ToLower(kind), strings.ToLower(name)
	slips := 2
	if len(name) < len("Service") {
		slips = 1
	}
	return kind == name+"s" || near.Slips(kind, name, slips) <= slips
}

// builtIn reports whether a group is one of Kubernetes' own: other projects have
// Services and Nodes as well.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}
