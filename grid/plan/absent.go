package plan

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/topology"
)

// lacks is what a grid names and no node has: its unit key, or else units that its
// rollout begins with. Both are waited for, and are most often mistyped.
type lacks struct {
	key   string   // what comes of a unit key that no node has; "" where nothing is wrong
	holds bool     // all that the grid has made stays as it is for that
	never []string // units of the order that the grid never had
	gone  []string // and that it had
}

func (x *Index) lacks(g *tracked) (m lacks) {
	m.never, m.gone = x.absentOrder(g)
	if len(x.units.of(g.unitKey)) == 0 {
		keys := x.keysOfChildren(g)
		m.holds = x.holds(g, keys)
		m.key = x.keyOfNobody(g, keys, m.holds)
	}
	return m
}

func (g *grid) absences(m lacks) (list []topology.Problem) {
	if m.key != "" {
		list = append(list, g.problem("spec.gridUniqKey", "%s", m.key))
	}
	if len(m.never) > 0 {
		list = append(list, g.problem(OrderField, "%s", g.unitsOfNobody(m.never)))
	}
	return list
}

// OrderField is what a Problem, and a rollout that is stopped, name for an order that is
// wrong by what Nodes there are.
const OrderField = "spec.rollout.order"

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

// holds reports whether all that a grid has made, by those keys, stays as it is while no
// node has the grid's: nodes have one of them, or there are no Nodes at all. For a slip of
// one letter the one child that serves all units would answer nobody, in any unit, and the
// others would go, site by site; so they would where the Nodes are lost.
func (x *Index) holds(g *tracked, keys []string) bool {
	if len(x.units.nodes) == 0 {
		return g.kind.PerUnit && len(keys) > 0 // one child for all units goes with none of them
	}
	for _, n := range x.units.nodes {
		if slices.ContainsFunc(keys, func(key string) bool { return n.labels[key] != "" }) {
			return true
		}
	}
	return false
}

// keyOfNobody says what comes of a grid whose unit key no node has, and which
// label may be meant. Where there are no Nodes nobody knows.
func (x *Index) keyOfNobody(g *tracked, keys []string, holds bool) string {
	comes, cure := "makes nothing", "label the nodes, or correct the key"
	switch made := strings.Join(keys, " and "); {
	case len(x.units.nodes) == 0 && !holds:
		return ""
	case len(x.units.nodes) == 0:
		if x.part {
			return "has " + g.kind.Child + "s, and there are no Nodes here; add those of the cluster (kubectl get nodes -o yaml), or ask it (--kubeconfig)"
		}
		return "keeps its " + g.kind.Child + "s as they are, for there are no Nodes; bring those back"
	case holds && g.kind.PerUnit:
		comes = "does not change its " + g.kind.Child + "s, which go by " + made
	case holds:
		comes = "does not change its " + g.kind.Child + ", which goes by " + made
	case !g.kind.PerUnit:
		comes = "makes a " + g.kind.Child + " that answers nobody"
	case made != "":
		comes = "makes nothing, and removes its " + g.kind.Child + "s by and by"
	}
	labels := map[string]int{} // by which nodes are in a unit
	for _, n := range x.units.nodes {
		for label, unit := range n.labels {
			if unit != "" {
				labels[label]++
			}
		}
	}
	if label := near.Word(g.unitKey, near.Common(labels, near.MostMeant)); label != "" {
		cure = "did you mean " + label + "? Correct the key, or label the nodes"
	}
	return fmt.Sprintf("%s, for no node has the label %s; %s", comes, g.unitKey, cure)
}

// stays says why a child stays as it is (lacks.holds).
func (x *Index) stays(g *tracked, c *child) string {
	switch keys := strings.Join(c.keys(), " and "); {
	case len(x.units.nodes) == 0:
		return "there are no Nodes; it stays until there are some"
	case g.kind.PerUnit:
		return fmt.Sprintf("it goes by %s, and stays until a node has the label %s; delete it, and it is not made again", keys, g.unitKey)
	default:
		return fmt.Sprintf("it goes by %s until a node has the label %s; delete it, and it is made by that all the same", keys, g.unitKey)
	}
}

// keysOfChildren are the unit keys by which the children were made that a grid has.
func (x *Index) keysOfChildren(g *tracked) (keys []string) {
	if !g.kind.PerUnit {
		live := x.children[Ref{g.kind.Child, g.ref.Namespace, g.kind.name(g.ref.Name, "")}]
		if of, owned := gridOf(live); owned && of == g.ref {
			return live.keys()
		}
		return nil
	}
	for _, list := range g.children {
		for _, c := range list {
			if g.made(c) {
				keys = append(keys, c.keys()...)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
