package datapath

import (
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// metric returns the value of a line of the agent's metrics.
func metric(t *testing.T, e *edge.Node, name string) string {
	t.Helper()
	value, err := readMetric(e, name)
	must(t, err)
	return value
}

// readMetric is metric for an agent that may just be starting.
func readMetric(e *edge.Node, name string) (string, error) {
	text, err := e.Metrics()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return value, nil
		}
	}
	return "", nil
}
