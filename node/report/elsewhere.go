package report

import (
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// mostUnreached bounds the Services that are named, of each kind.
const mostUnreached = 20

// Unreached keeps, as views go by, which closed Services this node may use no endpoint of: elsewhere there are some, for its
// unit has none of them, by intent or because a label is mistyped, or its pods are gone; or nowhere, as where a selector is
// mistyped or there are no replicas, of Services by a key that this node has.
type Unreached struct {
	view               *topology.View
	elsewhere, nowhere named
}

// named are Services, and the first of their names.
type named struct {
	are   map[topology.ObjectKey]bool
	first []string
}

// Fill takes a view, and tells the first names of each kind, and how many more there are.
func (x *Unreached) Fill(r *Report, v *topology.View) {
	if x.view == nil || !maps.Equal(x.view.Viewpoint.Values, v.Viewpoint.Values) { // which concerns any Service
		*x = Unreached{}
	}
	elsewhere, nowhere := map[topology.ObjectKey]bool{}, map[topology.ObjectKey]bool{}
	for key := range v.Changed(x.view) {
		s, ok := v.Service(key)
		elsewhere[key] = ok && s.Elsewhere()
		nowhere[key] = ok && s.Nowhere() && slices.ContainsFunc(s.Keys.List, func(k string) bool { return v.Viewpoint.Values[k] != "" })
	}
	x.view = v
	r.Elsewhere, r.MoreElsewhere = x.elsewhere.next(elsewhere)
	r.Nowhere, r.MoreNowhere = x.nowhere.next(nowhere)
}

// next takes of which Services it may have changed whether they are so.
func (n *named) next(changed map[topology.ObjectKey]bool) (names []string, more int) {
	if n.are == nil {
		n.are = map[topology.ObjectKey]bool{}
	}
	anew := false
	for key, is := range changed {
		anew = anew || is != n.are[key]
		if delete(n.are, key); is {
			n.are[key] = true
		}
	}
	if anew {
		n.first = first(n.are)
	}
	return n.first, len(n.are) - len(n.first)
}

// first are the first names, in one pass: there may be thousands.
func first(of map[topology.ObjectKey]bool) (names []string) {
	for key := range of {
		name := key.String()
		at, _ := slices.BinarySearch(names, name)
		if at == mostUnreached {
			continue
		}
		if names = slices.Insert(names, at, name); len(names) > mostUnreached {
			names = names[:mostUnreached]
		}
	}
	return names
}

// elsewhere says of which Services the node's unit has no endpoint; "" for none.
func (r *Report) elsewhere() string {
	return counted(r.Elsewhere, r.MoreElsewhere, "closed Service has", "closed Services have", "endpoints in other units alone")
}

// nowhere says which Services of the node's unit no unit has an endpoint of; "" for none.
func (r *Report) nowhere() string {
	return counted(r.Nowhere, r.MoreNowhere, "closed Service has", "closed Services have", "no ready endpoint in any unit")
}
