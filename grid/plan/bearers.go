package plan

import (
	"maps"
	"slices"
)

// Bearers are the units of a grid by what their children bear (bearing).
type Bearers struct {
	// Of are the units, sorted, whose child bears what a revision has for them, by the
	// revision's name. Where revisions have the same for a unit it is with each of them.
	Of map[string][]string
	// Known is how many units have a child that bears what a revision has.
	Known int
	// Unknown are those, sorted, of whose child nobody can tell what it bears, or that bears
	// what no revision has any more.
	Unknown []string
}

// BearersOf looks for the units that bear each revision of a grid. A ServiceGrid has none.
func BearersOf(w World, grid Ref) Bearers {
	b := Bearers{Of: map[string][]string{}}
	g := indexOf(w).grids[grid]
	if g == nil || !g.kind.PerUnit {
		return b
	}
	revisions := g.lookedAt()
	bears := bearing{tracked: g}
	for _, unit := range slices.Sorted(maps.Keys(g.children)) {
		c, known := g.live(unit), false
		if !g.made(c) {
			continue
		}
		has := bears.of(unit, c)
		for _, r := range revisions {
			if t, _ := g.asIn(r.Name).template(unit); t != nil && t.sum == has {
				b.Of[r.Name], known = append(b.Of[r.Name], unit), true
			}
		}
		if known {
			b.Known++
		} else {
			b.Unknown = append(b.Unknown, unit)
		}
	}
	return b
}
