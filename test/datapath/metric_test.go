package datapath

import (
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// metric returns the value of a line of the agent's metrics.
func metric(t *testing.T, e *edge.Node, name string) string {
	t.Helper()
	text, err := e.Metrics()
	must(t, err)
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return value
		}
	}
	return ""
}
