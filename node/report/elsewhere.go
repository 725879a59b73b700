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
// mistyped or there are no replicas, of Services by a key that this node has; or a port of it is nobody's, as where a
// targetPort is mistyped.
type Unreached struct {
	view                         *topology.View
	elsewhere, nowhere, portless named
}

// named are Services, and the first of them: those that are named and some to spare, so that what
// comes and goes costs no look at all of them.
type named struct {
	are   map[topology.ObjectKey]bool
	first []topology.ObjectKey
}

// Fill takes a view, and tells the first names of each kind, and how many more there are.
func (x *Unreached) Fill(r *Report, v *topology.View) {
	if x.view == nil || !maps.Equal(x.view.Viewpoint.Values, v.Viewpoint.Values) { // which concerns any Service
		*x = Unreached{}
	}
	elsewhere, nowhere, portless := map[topology.ObjectKey]bool{}, map[topology.ObjectKey]bool{}, map[topology.ObjectKey]bool{}
	for key := range v.Changed(x.view) {
		s, ok := v.Service(key)
		elsewhere[key] = ok && s.Elsewhere()
		portless[key] = ok && s.Portless()
		nowhere[key] = ok && s.Nowhere() && slices.ContainsFunc(s.Keys.List, func(k string) bool { return v.Viewpoint.Values[k] != "" })
	}
	x.view = v
	r.Elsewhere, r.MoreElsewhere = x.elsewhere.next(elsewhere)
	r.Nowhere, r.MoreNowhere = x.nowhere.next(nowhere)
	r.Portless, r.MorePortless = x.portless.next(portless)
}

// next takes of which Services it may have changed whether they are so.
func (n *named) next(changed map[topology.ObjectKey]bool) (names []string, more int) {
	if n.are == nil {
		n.are = map[topology.ObjectKey]bool{}
	}
	for key, is := range changed {
		switch {
		case is == n.are[key]:
		case is:
			n.insert(key, len(n.first) == len(n.are))
			n.are[key] = true
		default:
			delete(n.are, key)
			if at, there := slices.BinarySearchFunc(n.first, key, topology.ObjectKey.Compare); there {
				n.first = slices.Delete(n.first, at, at+1)
			}
		}
	}
	if len(n.first) < min(mostUnreached, len(n.are)) {
		n.first = n.first[:0]
		for key := range n.are {
			n.insert(key, true)
		}
	}
	for _, key := range n.first[:min(len(n.first), mostUnreached)] {
		names = append(names, key.String())
	}
	return names, len(n.are) - len(names)
}

// insert puts a key among the first; the last of them has those behind it that are not known.
func (n *named) insert(key topology.ObjectKey, last bool) {
	at, _ := slices.BinarySearchFunc(n.first, key, topology.ObjectKey.Compare)
	if at == len(n.first) && !last {
		return
	}
	n.first = slices.Insert(n.first, at, key)
	n.first = n.first[:min(len(n.first), 2*mostUnreached)]
}

// elsewhere says of which Services the node's unit has no endpoint; "" for none.
func (r *Report) elsewhere() string {
	return counted(r.Elsewhere, r.MoreElsewhere, "closed Service has", "closed Services have", "endpoints in other units alone")
}

// nowhere says which Services of the node's unit no unit has an endpoint of; "" for none.
func (r *Report) nowhere() string {
	return counted(r.Nowhere, r.MoreNowhere, "closed Service has", "closed Services have", "no ready endpoint in any unit")
}

// portless says which Services have a port that is nobody's; "" for none.
func (r *Report) portless() string {
	return counted(r.Portless, r.MorePortless, "closed Service has", "closed Services have", "a port that no endpoint here has")
}
