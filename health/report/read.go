package report

import (
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// statusGroup is of what daemons say, whatever its version.
var statusGroup, _, _ = strings.Cut(names.StatusVersion, "/")

// Read makes a State of objects as kubectl prints them, and says what is wrong with them. Of
// two with one name the last counts. Other kinds are passed over.
func Read(objects []map[string]any) (s State, problems []topology.Problem) {
	s.Recorded = true
	nodes, leases := map[string]int{}, map[string]int{}
	fault := func(object, field, text string) {
		problems = append(problems, topology.Problem{Object: object, Field: field, Text: text + "; it is left out"})
	}
	for _, obj := range objects {
		version, _ := obj["apiVersion"].(string)
		kind, _ := obj["kind"].(string)
		name := nameOf(obj)
		switch group, _, _ := strings.Cut(version, "/"); {
		case version == "v1" && kind == "Node":
			if n, field, text := decode[corev1.Node](obj); text != "" {
				fault("node "+name, field, text)
			} else {
				put(&s.Nodes, nodes, n.Name, n)
			}
		case group == "coordination.k8s.io" && kind == "Lease":
			if l, field, text := decode[coordinationv1.Lease](obj); text != "" {
				fault("lease "+name, field, text)
			} else if ofHealth(&l) {
				put(&s.Leases, leases, name, l)
			}
		case isShield(obj):
			if data, field, text := shieldData(obj); text != "" {
				fault(strings.ToLower(kind)+" "+name, field, text)
			} else {
				s.Shield = &Shield{data}
			}
		case group == statusGroup:
			told, field, text := readStatus(obj)
			node, _ := obj["node"].(string)
			if text != "" {
				fault(fmt.Sprintf("%s of %s", strings.ToLower(kind), orNobody(node)), field, text)
				continue
			}
			s.Told = append(s.Told, told)
		}
	}
	return s, problems
}

// put puts an object over what had its name.
func put[T any](list *[]T, at map[string]int, name string, t T) {
	if i, twice := at[name]; twice {
		(*list)[i] = t
		return
	}
	at[name] = len(*list)
	*list = append(*list, t)
}

// nameOf is how an object is called: namespace/name.
func nameOf(obj map[string]any) string {
	metadata, _ := obj["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
		return namespace + "/" + name
	}
	return name
}

func orNobody(name string) string {
	if name == "" {
		return "nobody"
	}
	return name
}

// ofHealth reports whether a Lease is a unit's, or a kubelet's.
func ofHealth(l *coordinationv1.Lease) bool {
	return l.Labels[names.UnitLease] != "" || l.Namespace == heartbeats
}

// shieldKind is that of the list of shielded nodes, as kubectl calls it.
const shieldKind = "nodetable"

// isShield reports whether an object is that list: it has data by the name of each node.
func isShield(obj map[string]any) bool {
	metadata, _ := obj["metadata"].(map[string]any)
	return metadata["name"] == names.Shield && obj["kind"] == names.NodeTableKind && obj["apiVersion"] == names.NodeTableGroup+"/"+names.NodeTableVersion
}

// shieldData is what is on it.
func shieldData(obj map[string]any) (data map[string]string, field, text string) {
	list, field, text := decode[struct {
		Data map[string]string `json:"data"`
	}](obj)
	return list.Data, field, text
}
