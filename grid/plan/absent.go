package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/topology"
)

// absences are what a grid names and no node has: its unit key, or else units that
// its rollout begins with and that it never had. Both are waited for, and are most often
// mistyped. Where there are no Nodes nobody knows.
func (x *Index) absences(g *tracked) (list []topology.Problem) {
	if x.nobodyHas(g.unitKey) {
		return []topology.Problem{g.problem("spec.gridUniqKey", "%s", x.keyOfNobody(g))}
	}
	if absent, _ := x.absentOrder(g); len(absent) > 0 {
		list = append(list, g.problem(orderField, "%s", g.unitsOfNobody(absent)))
	}
	return list
}

// nobodyHas reports whether there are Nodes, and none has a key that is in use.
func (x *Index) nobodyHas(key string) bool {
	return len(x.units.nodes) > 0 && len(x.units.of(key)) == 0
}

const orderField = "spec.rollout.order"

// maxGone bounds what a status says of units that are gone.
const maxGone = 100

// absentOrder are the units of the order of a rollout that no node is in: those that the
// grid never had, and those that are gone. A child says that it had one, and the status
// once the child is gone as well.
func (x *Index) absentOrder(g *tracked) (never, gone []string) {
	var known []string
	if g.workload != nil {
		known = g.workload.Gone
	}
	switch {
	case g.waves == nil:
		return nil, nil
	case len(x.units.of(g.unitKey)) == 0:
		return nil, known
	}
	for _, unit := range x.absentUnits(g, maps.Keys(g.waves.place)) {
		if slices.Contains(known, unit) || slices.ContainsFunc(g.children[unit], g.made) {
			gone = append(gone, unit)
		} else {
			never = append(never, unit)
		}
	}
	return never, gone[:min(maxGone, len(gone))]
}

// absentUnits are those that no node is in, by name.
func (x *Index) absentUnits(g *tracked, named iter.Seq[string]) (absent []string) {
	units := x.units.of(g.unitKey)
	for unit := range named {
		if units[unit] == nil {
			absent = append(absent, unit)
		}
	}
	slices.Sort(absent)
	return absent
}

func (g *grid) unitsOfNobody(absent []string) string {
	return fmt.Sprintf("names unit %s, of which there is no node (%s is the label); correct it, or label the nodes first", Short(absent), g.unitKey)
}

// keyOfNobody says what comes of a grid whose unit key no node has, and which
// label may be meant.
func (x *Index) keyOfNobody(g *tracked) string {
	comes, cure := "makes nothing", "label the nodes, or correct the key"
	switch kept := x.keptKey(g); {
	case kept != "" && g.kind.PerUnit:
		comes = "does not change its " + g.kind.Child + "s, which go by " + kept
	case kept != "":
		comes = "does not change its " + g.kind.Child + ", which goes by " + kept
	case !g.kind.PerUnit:
		comes = "makes a " + g.kind.Child + " that answers nobody"
	case g.anyMade():
		comes = "makes nothing, and removes its " + g.kind.Child + "s by and by"
	}
	labels := map[string]bool{} // by which a node is in a unit
	for _, n := range x.units.nodes {
		for label, unit := range n.labels {
			if unit != "" {
				labels[label] = true
			}
		}
	}
	if label := near.Word(g.unitKey, slices.Sorted(maps.Keys(labels))); label != "" {
		cure = "did you mean " + label + "? Correct the key, or label the nodes"
	}
	return fmt.Sprintf("%s, for no node has the label %s; %s", comes, g.unitKey, cure)
}

// keptKey is the key by which all that a grid has made goes on: nodes have it, and none
// has the grid's. For a slip of one letter the one child that serves all units would
// answer nobody, in any unit, and the others would go, site by site. "" where children
// are to be as the grid says.
func (x *Index) keptKey(g *tracked) string {
	if !x.nobodyHas(g.unitKey) {
		return ""
	}
	for _, key := range x.keysOfChildren(g) {
		for _, n := range x.units.nodes {
			if n.labels[key] != "" {
				return key
			}
		}
	}
	return ""
}

// keeps says what becomes of a child that goes by another key than the grid.
func (g *grid) keeps(key string) string {
	then := "it is made by that all the same"
	if g.kind.PerUnit {
		then = "it is not made again"
	}
	return fmt.Sprintf("it goes by %s until a node has the label %s; delete it, and %s", key, g.unitKey, then)
}

// keysOfChildren are the unit keys by which the children were made that a grid has.
func (x *Index) keysOfChildren(g *tracked) (keys []string) {
	if !g.kind.PerUnit {
		live := x.children[Ref{g.kind.Child, g.ref.Namespace, g.kind.name(g.ref.Name, "")}]
		of, owned := gridOf(live)
		if !owned || of != g.ref || json.Unmarshal([]byte(live.annotations[names.TopologyKeys]), &keys) != nil {
			return nil
		}
		return keys
	}
	for _, list := range g.children {
		for _, c := range list {
			// SuperEdge's have the label alone.
			if key := cmp.Or(c.annotations[names.UnitKey], c.labels[names.GridUniqKey]); g.made(c) && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// anyMade reports whether a grid has a child of its own.
func (g *tracked) anyMade() bool {
	for _, list := range g.children {
		if slices.ContainsFunc(list, g.made) {
			return true
		}
	}
	return false
}
