package topology

import (
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/table"
)

// Viewer keeps one node's view as snapshots go by. Services that a change does
// not concern keep their *ServiceView, so that the next step can tell by
// pointer what changed. It has one owner.
//
// Law: See returns what a new Viewer would return for the same snapshot.
type Viewer struct {
	name  string
	opts  Options
	rules []*rule
	// targets bounds the endpoints of a Service's frontends.
	targets targetBounds

	last   *Snapshot
	view   *View
	onNode map[string]set // node -> Services with endpoints there
	claims *claims
	keys   *keyUse
	absent map[string]string // keys that no node has, in the last view
}

type set map[ObjectKey]struct{}

// NewViewer looks from the named node.
func NewViewer(node string, opts Options) *Viewer {
	return &Viewer{
		name: node, opts: opts, rules: rules, targets: mostTargets,
		onNode: map[string]set{}, claims: newClaims(opts), keys: newKeyUse(),
	}
}

// See returns the view of s.
func See(s *Snapshot, node string, opts Options) *View { return NewViewer(node, opts).See(s) }

// See returns the view of the next snapshot.
func (v *Viewer) See(s *Snapshot) *View {
	dirty := set{}
	last := v.last
	if last == nil {
		last = &Snapshot{}
	}
	for key := range s.Changed(last) {
		was, _ := last.Services.Get(key)
		is, _ := s.Services.Get(key)
		v.index(key, was, -1)
		v.index(key, is, 1)
		v.claims.change(was.service(), is.service())
		dirty[key] = struct{}{}
	}
	v.claims.settle(dirty)
	eval := &evaluation{rules: v.rules, opts: v.opts, nodes: s.Nodes, dead: s.Dead, claims: v.claims, targets: v.targets}
	for name := range last.Nodes.Changed(s.Nodes) {
		was, _ := last.Nodes.Get(name)
		is, _ := s.Nodes.Get(name)
		v.keys.relabel(was, is)
	}
	v.keys.settle(!s.Partial && s.Nodes.Len() > 0)
	eval.inUse, eval.absent = v.keys.inUse, v.keys.absent
	eval.vp = v.viewpoint(last, s, eval.inUse)

	// A key that came or went concerns its own Services, which changed, unless
	// this node has a value of it: Services without keys are near by that.
	labels := eval.nodeLabels()
	if v.view == nil || !equalViewpoint(eval.vp, v.view.Viewpoint) || moved(last.Nodes, s.Nodes, v.name, labels) {
		for key := range s.Services.All() {
			dirty[key] = struct{}{}
		}
	} else {
		for name := range last.Nodes.Changed(s.Nodes) {
			if moved(last.Nodes, s.Nodes, name, labels) {
				maps.Copy(dirty, v.onNode[name])
			}
		}
		for _, name := range differ(last.Dead, s.Dead) {
			maps.Copy(dirty, v.onNode[name])
		}
		v.withKeysThatCameOrWent(s, eval.absent, dirty)
	}
	v.last, v.absent = s, eval.absent
	v.view = v.next(s, eval, dirty)
	return v.view
}

func (v *Viewer) next(s *Snapshot, eval *evaluation, dirty set) *View {
	next := &View{Viewpoint: eval.vp, KeysInUse: eval.inUse, ServiceCIDRs: s.ServiceCIDRs, Problems: s.Problems}
	var edit *table.Edit[ObjectKey, *ServiceView]
	if v.view != nil {
		edit = v.view.Services.Edit()
	} else {
		edit = (*table.Map[ObjectKey, *ServiceView])(nil).Edit()
	}
	for key := range dirty {
		if entry, _ := s.Services.Get(key); entry != nil && entry.Service != nil {
			edit.Set(key, eval.service(entry))
		} else {
			edit.Delete(key)
		}
	}
	next.Services = edit.Freeze()
	return next
}

// withKeysThatCameOrWent adds the Services of which a Problem says that no node
// has a key, or is to say it, or which one may be meant.
func (v *Viewer) withKeysThatCameOrWent(s *Snapshot, absent map[string]string, dirty set) {
	if maps.Equal(absent, v.absent) {
		return
	}
	for name, e := range s.Services.All() {
		if slices.ContainsFunc(e.keys.List, func(key string) bool {
			was, had := v.absent[key]
			is, has := absent[key]
			return was != is || had != has
		}) {
			dirty[name] = struct{}{}
		}
	}
}

// index counts what an entry depends on: n is 1 for one that came, -1 for one
// that went.
func (v *Viewer) index(key ObjectKey, e *Entry, n int) {
	if e == nil {
		return
	}
	for node := range nodesOf(e) {
		count(v.onNode, node, key, n)
	}
	if e.Service == nil {
		return
	}
	for _, k := range e.unitKeys() {
		v.keys.useKey(k, n)
	}
}

func nodesOf(e *Entry) map[string]struct{} {
	found := map[string]struct{}{}
	for _, s := range e.Slices {
		for i := range s.Endpoints {
			found[s.Endpoints[i].Node] = struct{}{}
		}
	}
	return found
}

// viewpoint is the last one where neither the node nor the keys in use changed.
func (v *Viewer) viewpoint(last, s *Snapshot, inUse []string) Viewpoint {
	was, before := last.Nodes.Get(v.name)
	is, known := s.Nodes.Get(v.name)
	if v.view != nil && was == is && before == known && sameSlice(v.view.KeysInUse, inUse) {
		return v.view.Viewpoint
	}
	return viewpoint(s, v.name, inUse)
}

// sameSlice reports whether two are the same in memory.
func sameSlice(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func viewpoint(s *Snapshot, name string, inUse []string) Viewpoint {
	vp := Viewpoint{Name: name, Values: map[string]string{}}
	n, known := s.Nodes.Get(name)
	if !known {
		return vp
	}
	vp.Known = true
	vp.Zone = n.Labels[names.Zone]
	for _, key := range inUse {
		if value := n.Labels[key]; value != "" { // an empty value is no unit
			vp.Values[key] = value
		}
	}
	return vp
}

func equalViewpoint(a, b Viewpoint) bool {
	return a.Name == b.Name && a.Known == b.Known && a.Zone == b.Zone && maps.Equal(a.Values, b.Values)
}

// nodeLabels are the labels of nodes that the rules read.
func (e *evaluation) nodeLabels() []string {
	list := slices.Clone(e.inUse)
	for _, r := range e.rules {
		list = append(list, r.nodeLabels...)
	}
	return list
}

// moved reports whether a node came, went, or changed its value of a label.
func moved(was, is *table.Map[string, *Node], name string, labels []string) bool {
	a, hadA := was.Get(name)
	b, hadB := is.Get(name)
	if !hadA || !hadB || a == b {
		return hadA != hadB
	}
	for _, key := range labels {
		x, okX := a.Labels[key]
		y, okY := b.Labels[key]
		if x != y || okX != okY {
			return true
		}
	}
	return false
}

// count adds a Service to the set of k, or with n < 0 removes it.
func count[K comparable](m map[K]set, k K, key ObjectKey, n int) {
	switch {
	case n < 0:
		delete(m[k], key)
		if len(m[k]) == 0 {
			delete(m, k)
		}
	case m[k] == nil:
		m[k] = set{key: {}}
	default:
		m[k][key] = struct{}{}
	}
}
