package script

import "fmt"

// World is what steps may name.
type World struct{ Units []Unit }

// Unit is a unit with its nodes.
type Unit struct {
	Name  string
	Nodes []string
}

// Small is the world of every soak: three units, of which one has a single
// node that nobody stands in for.
func Small() World {
	return World{[]Unit{{"a", []string{"a-1", "a-2"}}, {"b", []string{"b-1", "b-2"}}, {"c", []string{"c-1"}}}}
}

// Nodes are the nodes of all units.
func (w World) Nodes() (list []string) {
	for _, u := range w.Units {
		list = append(list, u.Nodes...)
	}
	return list
}

// UnitOf is where a node stands, whatever its labels say; "" for none.
func (w World) UnitOf(node string) string {
	for _, u := range w.Units {
		for _, n := range u.Nodes {
			if n == node {
				return u.Name
			}
		}
	}
	return ""
}

func (w World) units() (list []string) {
	for _, u := range w.Units {
		list = append(list, u.Name)
	}
	return list
}

// names are n names with a prefix: few, so that histories collide.
func names(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%s%d", prefix, i))
	}
	return list
}
