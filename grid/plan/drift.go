package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Manager is the field manager that children are applied under.
const Manager = "gridmesh-controller"

// Same tells whether live has all that wanted says; what it has besides does
// not matter.
func Same(wanted, live any) bool { return drift(wanted, live, "") == "" }

// drift names the first field of wanted that live does not have, or "". What
// live has besides, defaults and others' fields, is nobody's business.
func drift(wanted, live any, path string) string {
	switch wanted := wanted.(type) {
	case nil:
		return ""
	case Object:
		has, _ := live.(Object)
		for key := range wanted { // in no order, for most often there is none
			if drift(wanted[key], has[key], "") != "" {
				return driftOfObject(wanted, has, path)
			}
		}
		return ""
	case []any:
		return driftOfList(wanted, live, path)
	}
	if same(wanted, live) {
		return ""
	}
	return cmp.Or(path, ".")
}

// driftOfObject names the first field in the order of names.
func driftOfObject(wanted, has Object, path string) string {
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if at := drift(wanted[key], has[key], path+"."+key); at != "" {
			return at
		}
	}
	return ""
}

// driftOfList compares lists of named objects by name, others in order.
func driftOfList(wanted []any, live any, path string) string {
	has, _ := live.([]any)
	for i, item := range wanted {
		at, found := path+"["+strconv.Itoa(i)+"]", any(nil)
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

// SuperEdgeManager is the field manager of SuperEdge's controller: the name of
// its binary.
const SuperEdgeManager = "application-grid-controller"
