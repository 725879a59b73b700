package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/refusal"
)

// choosePath is what the node's agent chose, unless a flag does, and what is known of
// NetworkPolicies where there are two paths: the kernel serves all where there are any.
func (in *input) choosePath(ctx context.Context, opts *topology.Options) {
	if path, err := topology.ParseDatapath(in.agent(ctx).Datapath); err == nil && !in.cmd.Flags().Changed("datapath") {
		opts.Datapath = chosen(path)
	}
	if opts.Datapath == topology.DatapathNone {
		return
	}
	const none = "whether the cluster has NetworkPolicies is not known here: shown is what is so where it has none"
	switch in.origin {
	case fromFiles:
		opts.Policies = in.policiesOfFiles()
	case fromCluster:
		has, err := in.policiesOfCluster(ctx)
		if opts.Policies = has; err != nil {
			in.note("%s (%v)", none, err)
		}
	case fromDisk:
		if opts.Policies = in.kept.Policies != nil && *in.kept.Policies; in.kept.Policies == nil {
			in.note(none)
		}
	default:
		if opts.Policies = in.agent(ctx).Policies; in.agent(ctx).Datapath == "" {
			in.note(none)
		}
	}
}

// policiesOfFiles reports whether a NetworkPolicy is among the manifests.
func (in *input) policiesOfFiles() bool {
	manifests, err := in.manifests()
	if err != nil {
		return false // the snapshot was made of them
	}
	objects, _, err := manifests.Objects()
	if err != nil {
		return false
	}
	for _, obj := range objects {
		version, _ := obj["apiVersion"].(string)
		if obj["kind"] == "NetworkPolicy" && strings.HasPrefix(version, "networking.k8s.io/") {
			return true
		}
	}
	return false
}

func (in *input) policiesOfCluster(ctx context.Context) (bool, error) {
	client, err := in.connect()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, in.timeout)
	defer cancel()
	return client.HasNetworkPolicy(ctx)
}

// policed reports whether the kernel serves what Envoy would, for NetworkPolicies.
func (w *world) policed() bool {
	return w.opts.Policies && w.opts.Datapath == topology.DatapathAuto
}

const policedText = "the cluster has NetworkPolicies, or has not said that it has none: the kernel serves all, for what goes through Envoy passes by them"

// twoPaths reports whether the kernel serves what Envoy does not.
func (w *world) twoPaths() bool { return w.opts.Datapath != topology.DatapathNone }

// inKernel is the way of a packet to a frontend of the kernel path; nil where it
// takes another. Who is no pod of the node counts as from elsewhere.
func (w *world) inKernel(cfg plan.Config, client netip.Addr, to topology.Frontend) *walk {
	out := &walk{From: client.String(), To: to.String(), Tiers: []tierRow{}}
	for _, s := range w.view.Sorted() {
		for i := range s.Frontends {
			if f := &s.Frontends[i]; f.Frontend == to && f.Path == topology.PathKernel {
				if !out.translated(f.Tiers) {
					out.unanswered(f.Silent, refusal.Of(w.snap, w.view, w.opts, to))
				}
				return out
			}
		}
		for i := range s.Outside {
			if f := &s.Outside[i]; f.Frontend == to && f.Path == topology.PathKernel {
				out.fromOutside(f, s.Key, client, plan.Within(cfg.PodCIDRs, client))
				return out
			}
		}
	}
	return nil
}

// atNodePort is the way of a packet to a node port; nil where it is none. Which
// addresses the node has is not known here.
func (w *world) atNodePort(cfg plan.Config, client netip.Addr, to topology.Frontend) *walk {
	for _, s := range w.view.Sorted() {
		for i := range s.Outside {
			f := &s.Outside[i]
			if f.Kind != topology.NodePort || f.Path != topology.PathKernel ||
				f.Port != to.Port || f.Protocol != to.Protocol || f.Addr.Is4() != to.Addr.Unmap().Is4() {
				continue
			}
			out := &walk{From: client.String(), To: to.String(), Tiers: []tierRow{}}
			out.fromOutside(f, s.Key, client, plan.Within(cfg.PodCIDRs, client))
			out.Steps = append([]string{fmt.Sprintf("%d is the node port of service %s, where %s is an address at which this node serves node ports (--nodeport-addresses); elsewhere the packet passes", to.Port, s.Key, to.Addr)}, out.Steps...)
			return out
		}
	}
	return nil
}

// fromOutside is the way to an address that is no ClusterIP.
func (w *walk) fromOutside(f *topology.Outside, of topology.ObjectKey, client netip.Addr, pod bool) {
	tiers, silent, cause := f.Tiers, false, &refusal.Cause{
		Service: of.String(), Why: "has no endpoint at this port that this node may reach", Cure: "see gridmesh view of it",
	}
	switch {
	case len(f.Sources) > 0 && !plan.Within(f.Sources, client):
		tiers, silent = nil, true
		cause.Why, cause.Cure = "lets nobody in from "+client.String(), "add the client to spec.loadBalancerSourceRanges"
	case f.Local && !pod:
		tiers, silent = f.LocalTiers, f.Silent
		cause.Why, cause.Cure = "has no endpoint on this node, and externalTrafficPolicy Local", "dial a node that has one"
	}
	if !w.translated(tiers) {
		w.unanswered(silent, cause)
	}
}

// translated is what the kernel path makes of a packet, where there are endpoints.
func (w *walk) translated(tiers []topology.Tier) bool {
	if len(tiers) == 0 {
		return false
	}
	first := topology.ByReadiness(tiers)[:1]
	w.Verdict, w.Tiers = "kernel", tierRows(first)
	w.Steps = []string{fmt.Sprintf("the kernel path: %s is translated to one of %d endpoints, those of the first tier", w.To, len(first[0].Endpoints))}
	return true
}

func (w *walk) unanswered(silent bool, why *refusal.Cause) {
	fate := rules.Refused
	if silent {
		fate = rules.Dropped
	}
	w.Verdict, w.Cause = string(fate), why
	w.Steps = []string{"the kernel path: nobody may answer this client here", why.String(), "cure: " + why.Cure}
}
