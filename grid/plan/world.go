package plan

import (
	"maps"
	"slices"
	"time"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// Index is a world that is kept ready for planning: Set and Delete cost what
// changed. It has one owner, and writes to none of the objects.
type Index struct {
	units    units
	grids    map[Ref]*tracked
	users    map[string]map[Ref]bool // unit key -> its grids
	children map[Ref]*child
	taken    map[Ref]bool // names of objects that are nobody's children
	records  map[Ref]*record
	dirty    map[Ref]bool
	refusing map[Ref]bool // grids with a unit that others are in the way of
	unitless map[Ref]bool // grids that no node has the key of
	orphans  orphans
	part     bool // there may be objects of kinds that are not here (World.Part)
}

// tracked is a grid with what is known of it besides its spec.
type tracked struct {
	*grid
	*record
	assessed map[string]*assessment // by unit, of the spec as it is
	failures map[string]Failure     // by Step.Key, of the spec as it is
	disputed map[string]Dispute     // by child
	was      map[string]asWas       // by revision, while that is asked for
	later    map[string]bool        // children that nothing may be written to yet
}

// record is what outlives a change of the grid.
type record struct {
	children  map[string][]*child // by unit, sorted by name
	revisions map[string]Object   // by name
	sorted    []string            // the names of the grid's own, the newest first; nil where they are to be sorted anew
	sortedOf  string              // the uid of that grid
	// The status as it was decided last, or was found: where a rollout is.
	workload *apiv1.WorkloadGridStatus
	service  *apiv1.ServiceGridStatus
	// When this process had children removed last, with a monotonic reading.
	removedAt time.Time
	// When its last wave began, and was ready.
	waited, soaked sighting
	newcomers
}

// assessment is what a unit needs, kept as long as its child and its grid
// stay the same.
type assessment struct {
	child *child
	step  Step
}

// asWas is the grid as a revision has it, and what that holds.
type asWas struct {
	of   packed
	grid *grid
}

// NewIndex returns an empty world.
func NewIndex() *Index {
	return &Index{
		units: newUnits(), grids: map[Ref]*tracked{}, users: map[string]map[Ref]bool{}, children: map[Ref]*child{},
		taken: map[Ref]bool{}, records: map[Ref]*record{}, dirty: map[Ref]bool{}, refusing: map[Ref]bool{},
		unitless: map[Ref]bool{}, orphans: newOrphans(),
	}
}

// indexOf is a world, ready for planning.
func indexOf(w World) *Index {
	x := NewIndex()
	x.part = w.Part
	for _, list := range [][]Object{w.Nodes, w.Grids, w.Children, w.Revisions} {
		for _, obj := range list {
			x.Set(obj)
		}
	}
	return x
}

// Grids lists the grids there are, by namespace, kind and name; those of
// SuperEdge's federation are left alone.
func (x *Index) Grids() []Ref { return slices.SortedFunc(maps.Keys(x.grids), compareRefs) }

// Dirty returns the grids whose plan may have changed since the last call.
func (x *Index) Dirty() []Ref {
	list := slices.SortedFunc(maps.Keys(x.dirty), compareRefs)
	clear(x.dirty)
	return list
}

// MarkAllDirty marks every grid as changed, and forgets which names are taken:
// who has them is not watched.
func (x *Index) MarkAllDirty() {
	clear(x.taken)
	for ref := range x.grids {
		x.dirty[ref] = true
	}
}

// Set adds or replaces an object; one that no grid depends on is left out.
func (x *Index) Set(obj Object) {
	switch ref := RefOf(obj); {
	case ref.Kind == kindNode:
		n := readNode(obj)
		x.setNode(ref.Name, &n)
	case ref.Kind == RevisionKind:
		x.setRevision(ref, obj)
	case kindOf(ref.Kind) != nil:
		x.setOwner(ref, value[string](obj, "metadata", "uid"))
		if old := x.grids[ref]; old == nil || !old.is(obj) { // else it has a new status at most
			x.setGrid(ref, decodeGrid(obj), obj)
		}
	case kindOfChild(ref.Kind) != nil:
		x.setChild(ref, readChild(obj))
	}
}

// Delete removes an object.
func (x *Index) Delete(ref Ref) {
	switch {
	case ref.Kind == kindNode:
		x.setNode(ref.Name, nil)
	case ref.Kind == RevisionKind:
		x.deleteRevision(ref)
	case kindOf(ref.Kind) != nil:
		x.setOwner(ref, "")
		x.setGrid(ref, nil, nil)
		delete(x.records, ref)
	case kindOfChild(ref.Kind) != nil:
		x.setChild(ref, nil)
	}
}

// markRefusing marks the grids of a namespace that a name was in the way of.
func (x *Index) markRefusing(namespace string) {
	for ref := range x.refusing {
		if ref.Namespace == namespace {
			x.dirty[ref] = true
		}
	}
}

// Orphans are the objects whose grid is no more, as far as the index knows.
func (x *Index) Orphans() []Orphan { return x.orphans.list() }

// setOwner looks at what a grid made where that grid is not what it was.
func (x *Index) setOwner(ref Ref, uid string) {
	m := x.records[ref]
	if changed := x.orphans.setGrid(ref, uid); !changed || m == nil {
		return
	}
	for _, list := range m.children {
		for _, c := range list {
			x.orphans.set(c.ref, c.obj)
		}
	}
	for name, obj := range m.revisions {
		x.orphans.set(Ref{RevisionKind, ref.Namespace, name}, obj)
	}
}

func (x *Index) setNode(name string, n *node) {
	was, known := x.units.nodes[name]
	if known != (n != nil) || n != nil && !maps.Equal(was.labels, n.labels) {
		maps.Copy(x.dirty, x.unitless) // what is said of them depends on all labels
	}
	for _, s := range x.units.set(name, n) {
		for ref := range x.users[s.key] {
			x.dirty[ref] = true
			x.markRefusing(ref.Namespace)
		}
	}
}

func (x *Index) setGrid(ref Ref, g *grid, obj Object) {
	old := x.grids[ref]
	rekeyed := old == nil || g == nil || old.unitKey != g.unitKey
	if old != nil {
		if rekeyed || g.federated { // else since when units are there stays known
			x.unuse(old.grid)
		}
		delete(x.grids, ref)
	}
	x.dirty[ref] = true
	if rekeyed {
		x.markRefusing(ref.Namespace) // a name may be free now, or taken
	}
	if g == nil || g.federated {
		delete(x.refusing, ref)
		delete(x.unitless, ref)
		return
	}
	next := &tracked{grid: g, record: x.recordOf(ref), assessed: map[string]*assessment{}, failures: map[string]Failure{}}
	if old == nil || old.uid != g.uid {
		next.workload, next.service = decodeStatus(obj)
		next.removedAt, next.newcomers = time.Time{}, newcomers{}
	}
	x.grids[ref] = next
	x.use(g)
	if rekeyed {
		x.regroup(next)
	}
	if rekeyed || !old.valid {
		lookAnew(next.children)
		next.newcomers = newcomers{}
	}
}

func (x *Index) use(g *grid) {
	x.units.use(g.unitKey)
	if x.users[g.unitKey] == nil {
		x.users[g.unitKey] = map[Ref]bool{}
	}
	x.users[g.unitKey][g.ref] = true
}

func (x *Index) unuse(g *grid) {
	delete(x.users[g.unitKey], g.ref)
	if len(x.users[g.unitKey]) == 0 {
		delete(x.users, g.unitKey)
		x.units.drop(g.unitKey)
	}
}

// regroup sorts a grid's children into units by its key.
func (x *Index) regroup(g *tracked) {
	g.children = map[string][]*child{}
	for _, c := range x.children {
		if of, ok := gridOf(c); ok && of == g.ref {
			unit := c.unit(g.ref.Name, g.unitKey)
			g.children[unit] = append(g.children[unit], c)
		}
	}
	for _, list := range g.children {
		slices.SortFunc(list, compareChildren)
	}
}

func (x *Index) recordOf(ref Ref) *record {
	m := x.records[ref]
	if m == nil {
		m = &record{children: map[string][]*child{}, revisions: map[string]Object{}}
		x.records[ref] = m
	}
	return m
}

func (x *Index) setChild(ref Ref, c *child) {
	old := x.children[ref]
	if old != nil {
		x.group(old, false)
		delete(x.children, ref)
		if c != nil && c.uid == old.uid {
			c.saw(old)
		}
	}
	delete(x.taken, ref)
	x.orphans.set(ref, nil)
	if c != nil {
		x.children[ref] = c
		x.group(c, true)
		x.orphans.set(ref, c.obj)
	}
	oldOf, was := gridOf(old)
	newOf, is := gridOf(c)
	if was != is || oldOf != newOf || (old == nil) != (c == nil) {
		x.markRefusing(ref.Namespace)
	}
}

// group adds a child to its grid's units, or takes it away.
func (x *Index) group(c *child, there bool) {
	ref, ok := gridOf(c)
	if !ok {
		return
	}
	x.dirty[ref] = true
	g := x.grids[ref]
	if g == nil {
		return // its grid will look for it
	}
	unit := c.unit(g.ref.Name, g.unitKey)
	list := slices.DeleteFunc(g.children[unit], func(o *child) bool { return o.ref == c.ref })
	if there {
		at, _ := slices.BinarySearchFunc(list, c, compareChildren)
		list = slices.Insert(list, at, c)
	}
	if g.children[unit] = list; len(list) == 0 {
		delete(g.children, unit)
	}
}

func (x *Index) setRevision(ref Ref, obj Object) {
	x.orphans.set(ref, obj)
	owner := controllerOf(obj)
	kind := value[string](owner, "kind")
	if kindOf(kind) == nil { // a StatefulSet's own, or one that its grid left
		x.deleteRevision(ref)
		return
	}
	of := Ref{kind, ref.Namespace, value[string](owner, "name")}
	m := x.recordOf(of)
	m.revisions[ref.Name], m.sorted = obj, nil
	x.orphans.set(ref, obj)
	x.dirty[of] = true
}

func (x *Index) deleteRevision(ref Ref) {
	x.orphans.set(ref, nil)
	for of, m := range x.records {
		if _, ok := m.revisions[ref.Name]; !ok || of.Namespace != ref.Namespace {
			continue
		}
		delete(m.revisions, ref.Name)
		m.sorted = nil
		x.dirty[of] = true
		if len(m.revisions) == 0 && x.grids[of] == nil {
			delete(x.records, of)
		}
	}
}
