package main

import (
	"context"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/xds"
)

// noteEnvoy says what keeps a packet that Envoy is given from its endpoints, as
// far as the agent knows: the rules alone bring it nowhere. Another node's Envoy
// is not the agent's.
func (in *input) noteEnvoy(ctx context.Context, w *walk) {
	agent := in.agent(ctx)
	if w.Verdict != string(rules.ToEnvoy) || agent.Node != in.node {
		return
	}
	if agent.Envoys == nil && !agent.EnvoyAbsent {
		return // it does not say
	}
	for _, f := range agent.Faults(func(n xds.Nack) bool { return n.Name == w.Cluster || n.Service == w.service }) {
		text := f.What
		if f.Then != "" {
			text += "; " + f.Then
		}
		in.note("%s", printable(text, ""))
	}
}
