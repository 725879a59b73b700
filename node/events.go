package node

import (
	"fmt"

	"github.com/gridmesh/gridmesh/xds"
)

// Reasons of Events about this agent's own Node.
const (
	eventRefuses = "GridmeshRefusesToStart" // the node is not fit: exit code 3
	eventFinding = "GridmeshConflict"       // it runs, with something in its way
	eventRefused = "EnvoyRefusedResource"
)

// warn writes an Event about this node, where there is an API server.
func (a *Agent) warn(reason, message string) {
	if a.parts.Cluster != nil {
		a.parts.Cluster.Warn(reason, message)
	}
}

// refused tells of what Envoy does not take. It is called by Envoy's streams.
func (a *Agent) refused(n xds.Nack) {
	what := fmt.Sprintf("%s %s", n.Type, n.Name)
	if n.Service != "" {
		what += " of service " + n.Service
	}
	a.warn(eventRefused, fmt.Sprintf("%s; what Envoy held before stays in force: %s", what, n.Reason))
}
