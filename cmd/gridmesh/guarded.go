package main

import (
	"context"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/topology"
)

// guarded are the problems of Services with endpoints in guarded ranges, as the agent's status
// has them: of all, or of those that are asked for, and of who has an endpoint that is dialled.
func (w *world) guarded(args []string, flags []netip.Prefix, to netip.Addr) (list []topology.Problem) {
	var in guard.Endpoints
	all := in.Next(w.snap, flags)
	if len(args) == 0 {
		return all
	}
	for _, key := range servicesOf(w.snap) {
		entry, _ := w.snap.Services.Get(key)
		concerned := slices.ContainsFunc(args, func(arg string) bool { return asked(key.String(), arg) }) ||
			to.IsValid() && slices.ContainsFunc(entry.Slices, func(s *topology.Slice) bool {
				return slices.ContainsFunc(s.Endpoints, func(e topology.Endpoint) bool { return e.Addr == to })
			})
		if p, ok := in.Problem(key, flags); ok && concerned {
			list = append(list, p)
		}
	}
	return list
}

// against are findings by which the node does something else than is shown.
var against = []capture.FindingKind{capture.KubeProxy, capture.InputDrop, capture.Unseen, capture.KernelTable, capture.EnvoyPorts, guard.Overlap}

// noteRules says what keeps the node from what is shown, as its agent's status does. Of a node
// whose agent does not tell it finds what of guarded ranges is no Service's.
func (in *input) noteRules(ctx context.Context, w *world, cfg *plan.Config) {
	agent := in.agent(ctx)
	if agent.Node == in.node {
		if agent.Error != "" {
			in.note("the rules of this node are not as they should be, and what is shown is what they are to do: %s", agent.Error)
		}
		for _, f := range agent.Findings {
			if slices.Contains(against, f.Kind) {
				in.note("%s", f.Text)
			}
		}
		return
	}
	found, _ := guard.Check{Flags: cfg.ServiceCIDRs, Cluster: w.snap.ServiceCIDRs, Pods: in.ownPods(ctx, cfg)}.Findings()
	for _, f := range found {
		in.note("%s", f.Text)
	}
}

// ownPods are the ranges of the node's pods, as far as they are known.
func (in *input) ownPods(ctx context.Context, cfg *plan.Config) []netip.Prefix {
	var s surroundings
	switch {
	case len(cfg.PodCIDRs) > 0:
		return cfg.PodCIDRs
	case in.origin == fromFiles:
		_ = s.fromFiles(in) // the snapshot was made of them
	case in.origin == fromCluster:
		if client, err := in.connect(); err == nil {
			ctx, cancel := context.WithTimeout(ctx, in.timeout)
			defer cancel()
			own, _ := client.OwnNode(ctx, in.node) // a range that nobody knows overlaps none
			s.podCIDRs = own.PodCIDRs
		}
	case in.origin == fromDisk && in.another(ctx) == "":
		return in.kept.PodCIDRs
	}
	return s.podCIDRs
}
