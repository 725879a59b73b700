package plan

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// World is all that the grids of one cluster depend on.
type World struct {
	Grids     []Object // DeploymentGrids, StatefulSetGrids, ServiceGrids
	Nodes     []Object
	Children  []Object // Deployments, StatefulSets and Services
	Revisions []Object // ControllerRevisions
}

// All plans every grid of a world, by namespace, kind and name.
func All(w World, guard Guard, now time.Time) []Plan {
	x := NewIndex()
	for _, list := range [][]Object{w.Nodes, w.Grids, w.Children, w.Revisions} {
		for _, obj := range list {
			x.Set(obj)
		}
	}
	var plans []Plan
	for _, ref := range x.Grids() {
		if p, ok := x.Plan(ref, guard, now); ok {
			plans = append(plans, p)
		}
	}
	return plans
}

// Index is a world that is kept ready for planning: Set and Delete cost what
// changed. It has one owner, and writes to none of the objects.
type Index struct {
	nodes    map[string]node
	units    map[string]map[string]*members // of the unit keys in use: unit -> nodes
	grids    map[Ref]*grid
	users    map[string]map[Ref]bool // unit key -> its grids
	children map[Ref]*child
	taken    map[Ref]bool // names of objects that are nobody's children
	memories map[Ref]*memory
	dirty    map[Ref]bool
	refusing map[Ref]bool // grids with a unit that others are in the way of
}

// members are the nodes of a unit.
type members struct{ nodes, ready int }

func (m *members) dark() bool { return m.nodes > 0 && m.ready == 0 }

// NewIndex returns an empty world.
func NewIndex() *Index {
	return &Index{
		nodes: map[string]node{}, units: map[string]map[string]*members{}, grids: map[Ref]*grid{}, users: map[string]map[Ref]bool{},
		children: map[Ref]*child{}, taken: map[Ref]bool{}, memories: map[Ref]*memory{}, dirty: map[Ref]bool{}, refusing: map[Ref]bool{},
	}
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

// Soil marks every grid as changed, and forgets which names are taken: who
// has them is not watched.
func (x *Index) Soil() {
	clear(x.taken)
	for ref := range x.grids {
		x.dirty[ref] = true
	}
}

// Set adds or replaces an object.
func (x *Index) Set(obj Object) {
	switch ref := RefOf(obj); ref.Kind {
	case "Node":
		x.setNode(ref.Name, readNode(obj), true)
	case "DeploymentGrid", "StatefulSetGrid", "ServiceGrid":
		x.setGrid(ref, read(obj), obj)
	case "ControllerRevision":
		x.setRevision(ref, obj)
	default:
		x.setChild(ref, readChild(obj))
	}
}

// Delete removes an object.
func (x *Index) Delete(ref Ref) {
	switch ref.Kind {
	case "Node":
		x.setNode(ref.Name, node{}, false)
	case "DeploymentGrid", "StatefulSetGrid", "ServiceGrid":
		x.setGrid(ref, nil, nil)
		delete(x.memories, ref)
	case "ControllerRevision":
		x.deleteRevision(ref)
	default:
		x.setChild(ref, nil)
	}
}

// Failure is why the child of a unit could not be written.
type Failure struct {
	Text string
	// Final: the API server refused what was asked for, and would again.
	Final bool
}

// Failed notes what became of writes to the children of units; one without a
// text is a success.
func (x *Index) Failed(grid Ref, units map[string]Failure) {
	g := x.grids[grid]
	if g == nil {
		return
	}
	for unit, f := range units {
		switch was, failed := g.failures[unit]; {
		case f.Text == "" && failed:
			delete(g.failures, unit)
			x.dirty[grid] = true
		case f.Text != "" && was != f:
			g.failures[unit] = f
			x.dirty[grid] = true
		}
	}
}

// Deleting notes that a child is being deleted, before it is heard of.
func (x *Index) Deleting(ref Ref) {
	if c := x.children[ref]; c != nil {
		obj := clone(c.obj)
		ensure(obj, "metadata")["deletionTimestamp"] = "now"
		x.Set(obj)
	}
}

// Take notes that a name that a grid wants is somebody else's, who is not
// watched. Soil forgets it.
func (x *Index) Take(ref, by Ref) {
	x.taken[ref] = true
	x.dirty[by] = true
}

func (x *Index) soilRefusing(namespace string) {
	for ref := range x.refusing {
		if ref.Namespace == namespace {
			x.dirty[ref] = true
		}
	}
}

func (x *Index) setNode(name string, now node, there bool) {
	was, before := x.nodes[name]
	delete(x.nodes, name)
	if there {
		x.nodes[name] = now
	}
	for key, units := range x.units {
		from, to := was.labels[key], now.labels[key]
		if from == to && was.ready == now.ready && before == there {
			continue
		}
		changed := before && count(units, from, was.ready, -1)
		changed = there && count(units, to, now.ready, 1) || changed
		if changed {
			x.soilUsers(key)
		}
	}
}

// count adds a node to a unit, or takes it away, and tells whether the unit
// appeared, vanished, went dark or lit up.
func count(units map[string]*members, unit string, ready bool, by int) bool {
	if unit == "" {
		return false
	}
	m := units[unit]
	if m == nil {
		m = &members{}
		units[unit] = m
	}
	before := *m
	m.nodes += by
	if ready {
		m.ready += by
	}
	if m.nodes == 0 {
		delete(units, unit)
	}
	return (before.nodes == 0) != (m.nodes == 0) || before.dark() != m.dark()
}

func (x *Index) soilUsers(key string) {
	for ref := range x.users[key] {
		x.dirty[ref] = true
		x.soilRefusing(ref.Namespace)
	}
}

func (x *Index) setGrid(ref Ref, g *grid, obj Object) {
	old := x.grids[ref]
	if old != nil && g != nil && old.same(g) {
		return // a new status at most
	}
	if old != nil {
		delete(x.users[old.unitKey], ref)
		if len(x.users[old.unitKey]) == 0 {
			delete(x.users, old.unitKey)
			delete(x.units, old.unitKey)
		}
		delete(x.grids, ref)
	}
	x.dirty[ref] = true
	if old == nil || g == nil || old.unitKey != g.unitKey {
		x.soilRefusing(ref.Namespace) // a name may be free now, or taken
	}
	if g == nil || g.foreign {
		delete(x.refusing, ref)
		return
	}
	g.memory = x.memoryOf(ref)
	if old == nil || old.uid != g.uid {
		g.recall(object(obj, "status"))
	}
	g.assessed, g.failures = map[string]assessment{}, map[string]Failure{}
	x.grids[ref] = g
	x.use(g)
	if old == nil || old.unitKey != g.unitKey {
		x.regroup(g)
	}
}

// use counts the units of a grid's key, where nobody did before.
func (x *Index) use(g *grid) {
	if x.users[g.unitKey] == nil {
		x.users[g.unitKey] = map[Ref]bool{}
		units := map[string]*members{}
		for _, n := range x.nodes {
			count(units, n.labels[g.unitKey], n.ready, 1)
		}
		x.units[g.unitKey] = units
	}
	x.users[g.unitKey][g.ref] = true
}

// regroup sorts a grid's children into units by its key.
func (x *Index) regroup(g *grid) {
	g.units = map[string][]*child{}
	for _, c := range x.children {
		if of, ok := c.of(); ok && of == g.ref {
			g.units[c.unit(g.unitKey)] = append(g.units[c.unit(g.unitKey)], c)
		}
	}
	for _, list := range g.units {
		slices.SortFunc(list, compareChildren)
	}
}

func compareChildren(a, b *child) int { return strings.Compare(a.ref.Name, b.ref.Name) }

func (x *Index) memoryOf(ref Ref) *memory {
	m := x.memories[ref]
	if m == nil {
		m = &memory{units: map[string][]*child{}, revisions: map[string]Object{}}
		x.memories[ref] = m
	}
	return m
}

func (x *Index) setChild(ref Ref, c *child) {
	old := x.children[ref]
	if old != nil {
		x.remember(old, false)
		delete(x.children, ref)
	}
	delete(x.taken, ref)
	if c != nil {
		x.children[ref] = c
		x.remember(c, true)
	}
	oldOf, was := of(old)
	newOf, is := of(c)
	if was != is || oldOf != newOf || (old == nil) != (c == nil) {
		x.soilRefusing(ref.Namespace)
	}
}

func of(c *child) (Ref, bool) {
	if c == nil {
		return Ref{}, false
	}
	return c.of()
}

// remember adds a child to its grid's units, or takes it away.
func (x *Index) remember(c *child, there bool) {
	ref, ok := c.of()
	if !ok {
		return
	}
	x.dirty[ref] = true
	g := x.grids[ref]
	if g == nil {
		return // its grid will look for it
	}
	unit := c.unit(g.unitKey)
	g.units[unit] = slices.DeleteFunc(g.units[unit], func(o *child) bool { return o.ref == c.ref })
	if there {
		at, _ := slices.BinarySearchFunc(g.units[unit], c, compareChildren)
		g.units[unit] = slices.Insert(g.units[unit], at, c)
	}
	if len(g.units[unit]) == 0 {
		delete(g.units, unit)
	}
}

func (x *Index) setRevision(ref Ref, obj Object) {
	owner := controllerOf(obj)
	kind := text(owner, "kind")
	if childKinds[kind] == "" {
		return // a StatefulSet's own
	}
	of := Ref{kind, ref.Namespace, text(owner, "name")}
	x.memoryOf(of).revisions[ref.Name] = obj
	x.dirty[of] = true
}

func (x *Index) deleteRevision(ref Ref) {
	for of, m := range x.memories {
		if _, ok := m.revisions[ref.Name]; !ok || of.Namespace != ref.Namespace {
			continue
		}
		delete(m.revisions, ref.Name)
		x.dirty[of] = true
		if len(m.revisions) == 0 && x.grids[of] == nil {
			delete(x.memories, of)
		}
	}
}
