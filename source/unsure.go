package source

import (
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// What Problems say of a manifest that is not read.
const (
	objectLeftOut   = "object is left out"
	documentLeftOut = "document is left out"
	ofMetadata      = `unknown field "metadata.` // as the decoder has it
)

// LosesNode reports whether a Problem is of a manifest of a Node that was left out, or may
// lack its labels: any endpoint may be on that Node, and any unit may have it.
func LosesNode(p topology.Problem) bool {
	return strings.HasPrefix(p.Object, "node ") &&
		(strings.Contains(p.Text, objectLeftOut) || strings.Contains(p.Text, documentLeftOut) || strings.Contains(p.Text, ofMetadata))
}

// LeftOutNode reports whether one of the Problems is of a manifest of the Node with a name
// that was left out.
func LeftOutNode(problems []topology.Problem, name string) bool {
	for _, p := range problems {
		if LosesNode(p) && strings.HasPrefix(p.Object, "node "+name+" (") && !strings.Contains(p.Text, ofMetadata) {
			return true
		}
	}
	return false
}
