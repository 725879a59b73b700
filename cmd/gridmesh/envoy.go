package main

import (
	"context"

	"github.com/gridmesh/gridmesh/xds"
)

// noteEnvoy says what keeps connections that Envoy is given from their endpoints, as far
// as the agent knows, and which refusals of Envoy matter: the rules alone bring nobody
// anywhere. Another node's Envoy is not the agent's.
func (in *input) noteEnvoy(ctx context.Context, matters func(xds.Nack) bool) {
	agent := in.agent(ctx)
	if agent.Node != in.node || agent.Envoys == nil && !agent.EnvoyAbsent { // or it does not say
		return
	}
	for _, f := range agent.Faults(matters) {
		text := f.What
		if f.Then != "" {
			text += "; " + f.Then
		}
		in.note("%s", text)
	}
}

// ofWalk reports whether a refusal is of the way of a packet.
func (w *walk) ofWalk(n xds.Nack) bool { return n.Name == w.Cluster || n.Service == w.service }

// ofRows are the refusals of the Services that are shown.
func ofRows(rows []serviceRow) func(xds.Nack) bool {
	shown := map[string]bool{}
	for _, r := range rows {
		shown[r.Service] = true
	}
	return func(n xds.Nack) bool { return shown[n.Service] }
}
