package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// difference is a field of which a live object has another value than wanted.
type difference struct {
	path string // as .template.spec.hostNetwork
	live any
}

// Same reports whether live has all that wanted says; what it has besides does
// not matter.
func Same(wanted, live any) bool { return len(differences("", wanted, live)) == 0 }

// differences are the fields of wanted that live does not have, by path. What
// live has besides, defaults and others' fields, is nobody's business.
func differences(at string, wanted, live any) []difference {
	list := differ(nil, field{}, wanted, live)
	for i := range list {
		list[i].path = at + list[i].path
	}
	slices.SortFunc(list, compareDifferences)
	return list
}

func compareDifferences(a, b difference) int { return strings.Compare(a.path, b.path) }

// field is where two values come from.
type field struct {
	name     string
	quantity bool // "1" and "1000m" are one
}

func (f field) below(name string) field {
	return field{name, f.quantity || quantities[name]}
}

// quantities are the fields that hold them, or objects of them.
var quantities = map[string]bool{"limits": true, "requests": true, "sizeLimit": true, "divisor": true, "overhead": true}

// mergeKeys are the fields that tell the items of a list apart, as server-side
// apply has it (x-kubernetes-list-map-keys). Other lists of objects with names
// are told apart by those.
var mergeKeys = map[string][]string{
	"volumeMounts": {"mountPath"}, "volumeDevices": {"devicePath"}, "hostAliases": {"ip"},
	"ports":                     {"containerPort", "port", "protocol"}, // of a container, of a Service
	"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"},
	"claims":                    {"name", "request"},
	"x-kubernetes-validations":  {"rule"},
	"httpHeaders":               nil, // a name may come twice
}

// extended are lists that the API server itself appends to.
var extended = map[string]bool{"ipFamilies": true, "clusterIPs": true}

// presence are objects that say something by being there, empty or not. Others
// that are empty are as good as absent: the API server drops many of them.
var presence = map[string]bool{"emptyDir": true, "namespaceSelector": true, "podSelector": true, "labelSelector": true}

// differ appends where live differs from what is wanted of a field. Paths are
// made on the way back: most often there is none.
func differ(list []difference, f field, wanted, live any) []difference {
	switch wanted := wanted.(type) {
	case nil:
		return list
	case Object:
		if len(wanted) == 0 && live == nil && presence[f.name] {
			return append(list, difference{})
		}
		has, _ := live.(Object)
		for key, v := range wanted {
			from := len(list)
			list = differ(list, f.below(key), v, has[key])
			put(list[from:], "."+key)
		}
		return list
	case []any:
		return differInList(list, f, wanted, live)
	}
	if !same(f.quantity, wanted, live) {
		list = append(list, difference{live: live})
	}
	return list
}

// put sets a part of a path before those of a list.
func put(list []difference, part string) {
	for i := range list {
		list[i].path = part + list[i].path
	}
}

// differInList compares items that have keys with those of the same keys;
// other lists are replaced as a whole, and compared so.
func differInList(list []difference, f field, wanted []any, live any) []difference {
	has, _ := live.([]any)
	keys, known := mergeKeys[f.name]
	if !known && len(wanted) > 0 {
		if o, ok := wanted[0].(Object); ok && o["name"] != nil {
			keys = []string{"name"}
		}
	}
	if keys == nil && len(has) != len(wanted) && !extended[f.name] {
		return append(list, difference{live: live})
	}
	for i, item := range wanted {
		from := len(list)
		if found := counterpart(has, i, item, keys); found == nil {
			list = append(list, difference{})
		} else {
			list = differ(list, f, item, found)
		}
		if len(list) > from {
			put(list[from:], "["+strconv.Itoa(i)+"]")
		}
	}
	return list
}

// counterpart is the live item that an item of a list is compared with, or nil.
func counterpart(live []any, i int, item any, keys []string) any {
	if i < len(live) && (keys == nil || sameKeys(item, live[i], keys)) {
		return live[i]
	}
	if keys == nil {
		return nil
	}
	for _, other := range live {
		if sameKeys(item, other, keys) {
			return other
		}
	}
	return nil
}

func sameKeys(a, b any, keys []string) bool {
	x, okX := a.(Object)
	y, okY := b.(Object)
	if !okX || !okY {
		return false
	}
	for _, key := range keys {
		if keyOf(x, key) != keyOf(y, key) {
			return false
		}
	}
	return true
}

// keyOf is an item's value of a merge key; a port without a protocol is of TCP.
func keyOf(item Object, key string) string {
	switch v := item[key]; {
	case v != nil && v != "":
		return fmt.Sprint(v)
	case key == "protocol":
		return "TCP"
	}
	return ""
}

// same compares scalars. The API server drops most that are zero: zero is as
// good as absent.
func same(quantity bool, wanted, live any) bool {
	if wanted == live {
		return true
	}
	if live == nil {
		return wanted == "" || wanted == false || wanted == int64(0) || wanted == float64(0)
	}
	x, y := fmt.Sprint(wanted), fmt.Sprint(live)
	if x == y || !quantity {
		return x == y
	}
	p, errA := resource.ParseQuantity(x)
	q, errB := resource.ParseQuantity(y)
	return errA == nil && errB == nil && p.Cmp(q) == 0
}
