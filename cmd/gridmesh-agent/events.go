package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/events"
	"github.com/gridmesh/gridmesh/xds"
)

// Reasons of Events about this agent's own Node.
const (
	eventRefuses = "GridmeshRefusesToStart" // the node is not fit: exit code 3
	eventFinding = "GridmeshConflict"       // it runs, with something in its way
	eventRefused = "EnvoyRefusedResource"
)

// warn writes an Event about this node, where there is an API server.
func (a *agent) warn(reason, message string) {
	if a.events != nil {
		a.events.Warn(reason, message)
	}
}

// refused tells of what Envoy does not take.
func (a *agent) refused(n xds.Nack) {
	what := fmt.Sprintf("%s %s", n.Type, n.Name)
	if n.Service != "" {
		what += " of service " + n.Service
	}
	a.warn(eventRefused, fmt.Sprintf("%s; what Envoy held before stays in force: %s", what, n.Reason))
}

// tell writes why this agent does not start, as far as the API server can be
// reached.
func (c *config) tell(ctx context.Context, log *slog.Logger, why error) {
	if c.manifests != "" {
		return
	}
	client, err := kube.Connect(c.kubeconfig, "gridmesh-agent", kube.NodeRate())
	if err != nil {
		return // the reason for not starting is in the log
	}
	events.ForNode(client, c.node, log).WarnNow(ctx, eventRefuses, why.Error())
}
