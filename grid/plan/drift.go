package plan

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Manager is the field manager that children are applied under.
const Manager = "gridmesh-controller"

// drift names the first field of wanted that live does not have, or "". What
// live has besides, defaults and others' fields, is nobody's business.
func drift(wanted, live any, path string) string {
	switch wanted := wanted.(type) {
	case nil:
		return ""
	case Object:
		has, _ := live.(Object)
		for _, key := range slices.Sorted(maps.Keys(wanted)) {
			if at := drift(wanted[key], has[key], path+"."+key); at != "" {
				return at
			}
		}
		return ""
	case []any:
		return driftOfList(wanted, live, path)
	}
	if same(wanted, live) {
		return ""
	}
	return path
}

// driftOfList compares lists of named objects by name, others in order.
func driftOfList(wanted []any, live any, path string) string {
	has, _ := live.([]any)
	for i, item := range wanted {
		at, found := fmt.Sprintf("%s[%d]", path, i), any(nil)
		if i < len(has) {
			found = has[i]
		}
		if o, ok := item.(Object); ok && o["name"] != nil {
			found = nil
			for _, h := range has {
				if other, ok := h.(Object); ok && other["name"] == o["name"] {
					found = h
				}
			}
		}
		if found == nil {
			return at
		}
		if deeper := drift(item, found, at); deeper != "" {
			return deeper
		}
	}
	return ""
}

// same compares scalars; "1" and "1000m" are one quantity.
func same(a, b any) bool {
	if a == b {
		return true
	}
	x, y := fmt.Sprint(a), fmt.Sprint(b)
	if x == y {
		return b != nil
	}
	p, errA := resource.ParseQuantity(x)
	q, errB := resource.ParseQuantity(y)
	return errA == nil && errB == nil && p.Cmp(q) == 0
}

// othersScale tells whether another manager owns spec.replicas of a live
// child: an autoscaler, or somebody with kubectl scale.
func othersScale(child Object) bool {
	entries, _ := object(child, "metadata")["managedFields"].([]any)
	return slices.ContainsFunc(entries, func(e any) bool {
		entry, _ := e.(Object)
		_, owns := object(entry, "fieldsV1", "f:spec")["f:replicas"]
		return owns && entry["manager"] != Manager && entry["manager"] != SuperEdgeManager
	})
}

// SuperEdgeManager is the field manager of SuperEdge's controller: the name of
// its binary.
const SuperEdgeManager = "application-grid-controller"
