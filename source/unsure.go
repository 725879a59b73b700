package source

import (
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// LosesNode reports whether a Problem is of a manifest of a Node that is left out, or may
// lack its labels: any endpoint may be on that Node, and any unit may have it.
func LosesNode(p topology.Problem) bool {
	return strings.HasPrefix(p.Object, "node ") &&
		(p.Loss == topology.LostAll || p.Loss == topology.LostField && strings.HasPrefix(p.Field, "metadata."))
}

// LeftOutNode reports whether one of the Problems is of a manifest of the Node with a name
// that is left out.
func LeftOutNode(problems []topology.Problem, name string) bool {
	for _, p := range problems {
		if p.Loss == topology.LostAll && strings.HasPrefix(p.Object, "node "+name+" (") {
			return true
		}
	}
	return false
}
