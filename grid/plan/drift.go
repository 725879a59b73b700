package plan

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Same reports whether live has all that wanted says; what it has besides does
// not matter.
func Same(wanted, live any) bool {
	_, differs := drift(wanted, live)
	return !differs
}

// drift finds the first field, by name, of wanted that live does not have. What
// live has besides, defaults and others' fields, is nobody's business. The path
// is made on the way back: most often there is none.
func drift(wanted, live any) (path string, differs bool) {
	switch wanted := wanted.(type) {
	case nil:
		return "", false
	case Object:
		return driftOfObject(wanted, live)
	case []any:
		return driftOfList(wanted, live)
	}
	return "", !same(wanted, live)
}

func driftOfObject(wanted Object, live any) (path string, differs bool) {
	has, _ := live.(Object)
	first := ""
	for key := range wanted {
		if differs && key > first {
			continue
		}
		if below, found := drift(wanted[key], has[key]); found {
			first, path, differs = key, "."+key+below, true
		}
	}
	return path, differs
}

// driftOfList compares lists of named objects by name, others in order.
func driftOfList(wanted []any, live any) (path string, differs bool) {
	has, _ := live.([]any)
	for i, item := range wanted {
		found := any(nil)
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
		if below, differs := drift(item, found); found == nil || differs {
			if found == nil {
				below = "" // the item itself is missing
			}
			return "[" + strconv.Itoa(i) + "]" + below, true
		}
	}
	return "", false
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
