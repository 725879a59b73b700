package report

import (
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// mostElsewhere bounds the Services that are named.
const mostElsewhere = 20

// Elsewhere keeps, as views go by, which closed Services this node may use no endpoint of though there are some: its unit
// has none of them, by intent or because a label is mistyped, or its pods are gone.
type Elsewhere struct {
	view  *topology.View
	are   map[topology.ObjectKey]bool
	named []string
}

// Next takes a view, and returns the first of their names, and how many more there are.
func (e *Elsewhere) Next(v *topology.View) (names []string, more int) {
	if e.are == nil {
		e.are = map[topology.ObjectKey]bool{}
	}
	changed := false
	for key := range v.Changed(e.view) {
		s, ok := v.Service(key)
		is := ok && s.Elsewhere()
		changed = changed || is != e.are[key]
		if delete(e.are, key); is {
			e.are[key] = true
		}
	}
	if e.view = v; changed {
		e.named = first(e.are)
	}
	return e.named, len(e.are) - len(e.named)
}

// first are the first names, in one pass: there may be thousands.
func first(of map[topology.ObjectKey]bool) (names []string) {
	for key := range of {
		name := key.String()
		at, _ := slices.BinarySearch(names, name)
		if at == mostElsewhere {
			continue
		}
		if names = slices.Insert(names, at, name); len(names) > mostElsewhere {
			names = names[:mostElsewhere]
		}
	}
	return names
}

// elsewhere says of which Services the node's unit has no endpoint; "" for none.
func (r *Report) elsewhere() string {
	return counted(r.Elsewhere, r.MoreElsewhere, "closed Service has", "closed Services have", "endpoints in other units alone")
}
