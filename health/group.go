package health

import (
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/api/names"
)

// Grouping is how nodes are grouped into units: by one of its fields.
type Grouping struct {
	Key   string   // a label of Nodes, whose value is the unit
	Units []string // SuperEdge's NodeUnits that vote, sorted: who is in several of them votes with who is in the same ones
	All   bool     // one unit of all

	// Workers leaves nodes of the control plane in no unit.
	Workers bool
}

// everybody is the name of the unit of all.
const everybody = "all"

// unitOf is the unit of a node with labels; empty where it is in none.
func (g Grouping) unitOf(labels map[string]string) string {
	if _, master := labels[names.MasterLabel]; master && g.Workers {
		return ""
	}
	if _, master := labels[names.ControlPlaneLabel]; master && g.Workers {
		return ""
	}
	switch {
	case g.All:
		return everybody
	case g.Key != "":
		return labels[g.Key]
	}
	var of []string
	for _, name := range g.Units {
		if labels[name] == names.NodeUnitMember {
			of = append(of, name)
		}
	}
	return strings.Join(of, ",")
}

// selector selects the nodes that may be in a unit: all that are, and perhaps some that are
// in another NodeUnit besides.
func (g Grouping) selector(unit string) string {
	var terms []string
	switch {
	case g.All:
	case g.Key != "":
		terms = append(terms, g.Key+"="+unit)
	default:
		for name := range strings.SplitSeq(unit, ",") {
			terms = append(terms, name+"="+names.NodeUnitMember)
		}
	}
	if g.Workers {
		terms = append(terms, "!"+names.MasterLabel, "!"+names.ControlPlaneLabel)
	}
	return strings.Join(terms, ",")
}

func (g Grouping) equal(o Grouping) bool {
	return g.Key == o.Key && g.All == o.All && g.Workers == o.Workers && slices.Equal(g.Units, o.Units)
}
