package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/api/names"
)

// Orphan is an object of a version that a grid made which is no more, as far as
// is known: there is none of that name, or one of another UID.
type Orphan struct {
	Ref
	Version string
	Grid    Ref
	UID     string // of the grid that made it
}

// orphans knows which grids there are, and what was seen without its own.
type orphans struct {
	grids map[Ref]string // UIDs
	seen  map[Ref]Orphan // some of them may have their grid by now
}

func newOrphans() orphans { return orphans{grids: map[Ref]string{}, seen: map[Ref]Orphan{}} }

// setGrid notes the UID of a grid, "" where there is none. It reports whether
// that is another: what it owned is to be looked at again.
func (o *orphans) setGrid(ref Ref, uid string) (changed bool) {
	changed = o.grids[ref] != uid
	if o.grids[ref] = uid; uid == "" {
		delete(o.grids, ref)
	}
	return changed
}

// set looks at an object that a grid may have made; nil is one that is gone.
func (o *orphans) set(ref Ref, obj Object) {
	delete(o.seen, ref)
	if orphan, owned := ownedBy(ref, obj); owned && o.grids[orphan.Grid] != orphan.UID {
		o.seen[ref] = orphan
	}
}

// list are the orphans, sorted.
func (o *orphans) list() []Orphan {
	maps.DeleteFunc(o.seen, func(_ Ref, orphan Orphan) bool { return o.grids[orphan.Grid] == orphan.UID })
	return slices.SortedFunc(maps.Values(o.seen), func(a, b Orphan) int { return compareRefs(a.Ref, b.Ref) })
}

// ownedBy is an object as the orphan of its grid. Only what bears a grid's label
// and is that grid's alone is owned by it: another owner keeps an object, and
// one that is being deleted needs nobody.
func ownedBy(ref Ref, obj Object) (orphan Orphan, owned bool) {
	owner := controllerOf(obj)
	kind, name, uid := kindOf(value[string](owner, "kind")), value[string](owner, "name"), value[string](owner, "uid")
	version, err := schema.ParseGroupVersion(value[string](owner, "apiVersion"))
	if kind == nil || uid == "" || err != nil || version.Group != gridAPI.Group || ref.Kind != kind.Child && ref.Kind != RevisionKind ||
		deleting(obj) || len(value[[]any](obj, "metadata", "ownerReferences")) > 1 ||
		value[string](obj, "metadata", "labels", names.GridSelector) != name {
		return Orphan{}, false
	}
	return Orphan{Ref: ref, Version: value[string](obj, "metadata", "resourceVersion"), Grid: Ref{kind.Name, ref.Namespace, name}, UID: uid}, true
}
