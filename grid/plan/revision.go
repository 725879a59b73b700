package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gridmesh/gridmesh/api/names"
)

// historyLimit is how many earlier revisions of a grid are kept.
const historyLimit = 10

// mostExpired is how many are removed at a time: nobody else's writes wait for more.
const mostExpired = 20

// Revision is one ControllerRevision of a grid.
type Revision struct {
	Name    string
	Number  int64
	First   int64  // its number before anybody went back to it
	Created string // RFC 3339

	told bool // First is what it says; an earlier version of this controller wrote none
	obj  Object
}

// compareAge orders revisions by when they were there first, the elder one before. Numbers
// of those that do not say their first one are of when somebody went back to them; times of
// creation are all alike after a restore.
func compareAge(a, b Revision) int {
	if made := strings.Compare(a.Created, b.Created); made != 0 && a.Created != "" && b.Created != "" && (!a.told || !b.told) {
		return made
	}
	return cmp.Compare(a.First, b.First)
}

// Content is the part of the grid's spec that is rolled back: template,
// templatePool, templates and defaultTemplateName.
func (r Revision) Content() Object { return value[Object](dataOf(r.obj).open(), "spec") }

func revisionOf(obj Object) Revision {
	r := Revision{
		Name: value[string](obj, "metadata", "name"), Number: integer(obj, 0, "revision"),
		Created: value[string](obj, "metadata", "creationTimestamp"), obj: obj,
	}
	first, err := strconv.ParseInt(value[string](obj, "metadata", "annotations", names.FirstRevision), 10, 64)
	if r.First, r.told = first, err == nil; !r.told {
		r.First = r.Number
	}
	return r
}

// Revisions are a grid's own among objects, the newest first.
func Revisions(uid string, objects []Object) []Revision {
	var list []Revision
	for _, obj := range objects {
		if uid != "" && value[string](controllerOf(obj), "uid") != uid {
			continue
		}
		list = append(list, revisionOf(obj))
	}
	slices.SortFunc(list, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), strings.Compare(a.Name, b.Name))
	})
	return list
}

// RollbackPatch is a merge patch that makes a grid's spec what it was in a
// revision. It fails when the grid has changed since it was read.
func RollbackPatch(grid Object, r Revision) ([]byte, error) {
	spec, content := Object{}, r.Content()
	for _, field := range []string{"template", "templatePool", "templates", "defaultTemplateName"} {
		if patch, ok := mergePatch(value[any](grid, "spec", field), content[field]); ok {
			spec[field] = patch
		}
	}
	data, err := json.Marshal(Object{"metadata": Object{"resourceVersion": value[string](grid, "metadata", "resourceVersion")}, "spec": spec})
	if err != nil {
		return nil, fmt.Errorf("write patch: %w", err)
	}
	return data, nil
}

// mergePatch makes one JSON value into another (RFC 7386); ok is false where
// they are equal.
func mergePatch(from, to any) (patch any, ok bool) {
	a, okA := from.(Object)
	b, okB := to.(Object)
	if !okA || !okB {
		return to, sum(from) != sum(to)
	}
	out := Object{}
	for key := range a {
		if _, stays := b[key]; !stays {
			out[key] = nil
		}
	}
	for key := range b {
		if _, was := a[key]; !was {
			out[key] = b[key]
		} else if p, differs := mergePatch(a[key], b[key]); differs {
			out[key] = p
		}
	}
	return out, len(out) > 0
}

// revise decides which ControllerRevisions to write and to drop; one of them is kept
// besides. Content that was there before gets a new number, as kubectl rollout undo has it.
func (g *tracked) revise(p *Plan, kept string) {
	all := g.ownRevisions()
	if len(all) == 0 || all[0].Name != g.revision {
		next := int64(0)
		if len(all) > 0 {
			next = all[0].Number
		}
		if next < math.MaxInt64 { // which anybody may write
			next++
		}
		p.Revision = &NewRevision{g.grid, next, next}
		if was, there := g.ownRevision(g.revision); there {
			p.Revision.first = revisionOf(was).First
		}
	}
	all = slices.DeleteFunc(all, func(r Revision) bool { return r.Name == g.revision })
	if last := slices.IndexFunc(all, func(r Revision) bool { return r.Name == kept }); last >= historyLimit {
		all = slices.Insert(slices.Delete(all, last, last+1), 0, all[last]) // children may be made of it
	}
	for _, r := range all[min(historyLimit, len(all)):] {
		if len(p.Expired) < mostExpired && value[string](r.obj, "metadata", "deletionTimestamp") == "" {
			p.Expired = append(p.Expired, r.Name)
		}
	}
}

// ownRevisions are the grid's, the newest first.
func (g *tracked) ownRevisions() []Revision { return g.named(g.ownNames()) }

// lookedAt are those of which children may be made: the newest. More than that the
// controller keeps of no grid, so others made them, and each costs a look for every child.
func (g *tracked) lookedAt() []Revision {
	own := g.ownNames()
	return g.named(own[:min(len(own), 2*historyLimit)])
}

// ownNames are sorted once, however often they are looked through.
func (g *tracked) ownNames() []string {
	if g.sorted == nil || g.sortedOf != g.uid {
		g.sorted, g.sortedOf = []string{}, g.uid
		for _, r := range Revisions(g.uid, slices.Collect(maps.Values(g.revisions))) {
			g.sorted = append(g.sorted, r.Name)
		}
	}
	return g.sorted
}

func (g *tracked) named(names []string) (list []Revision) {
	for _, name := range names {
		list = append(list, revisionOf(g.revisions[name]))
	}
	return list
}

// ownRevision is a revision of a name, not one that an earlier grid of the same name left:
// the same content has the same name.
func (g *tracked) ownRevision(name string) (obj Object, there bool) {
	obj, there = g.revisions[name]
	return obj, there && (g.uid == "" || value[string](controllerOf(obj), "uid") == g.uid)
}

// goesBack reports whether the units go back to what the grid had before: its revision
// was made before another one.
func (g *tracked) goesBack() bool {
	own, _ := g.ownRevision(g.revision)
	made := value[string](own, "metadata", "creationTimestamp")
	return made != "" && slices.ContainsFunc(g.ownRevisions(), func(r Revision) bool { return r.Created > made })
}
