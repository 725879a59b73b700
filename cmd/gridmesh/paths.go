package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/refusal"
)

// choosePath is what the node's agent chose, unless a flag does, and what is known of
// NetworkPolicies where there are two paths: the kernel serves all where there are any.
func (in *input) choosePath(ctx context.Context, opts *topology.Options) {
	if agent := in.agent(ctx); agent.Node != "" && !in.cmd.Flags().Changed("datapath") {
		opts.Datapath, _ = topology.ParseDatapath(agent.Datapath) // it says none where it has envoy
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
	name, _, err := client.NetworkPolicy(ctx)
	return name != "", err
}

// policed reports whether the kernel serves what Envoy would, for NetworkPolicies.
func (w *world) policed() bool {
	return w.opts.Policies && w.opts.Datapath == topology.DatapathAuto
}

// kernelWhy takes why the kernel serves what is Envoy's, as the agent of the node says it: of
// another node than its own, or another datapath, it has no word.
func (w *world) kernelWhy(in *input, agent *report.Report) {
	if w.policed() {
		w.allKernel = policedText
	}
	if agent.Node != in.node || agent.Datapath != w.opts.Datapath.String() || !w.twoPaths() {
		return
	}
	now := time.Now()
	if text := agent.PoliciesText(now); text != "" && w.policed() {
		w.allKernel = text
	}
	w.instead = agent.InsteadText(now)
}

// byNow is the path of a frontend's new connections.
func (w *world) byNow(path topology.Path) topology.Path {
	if w.instead != "" && path == topology.PathEnvoy {
		return topology.PathKernel
	}
	return path
}

// whyKernel says why the kernel serves what Envoy would else, of frontends that are shown;
// instead: some are Envoy's.
func (w *world) whyKernel(instead bool) (list []string) {
	if w.allKernel != "" {
		list = append(list, w.allKernel)
	}
	if instead && w.instead != "" {
		list = append(list, w.instead)
	}
	return list
}

// pathOf names what serves a frontend, where that is a question.
func pathOf(s *topology.ServiceView, path topology.Path) string {
	if s.Datapath == topology.DatapathNone {
		return ""
	}
	return path.String()
}

// instead reports whether the kernel gets new connections of some that are Envoy's.
func instead(rows []serviceRow) bool {
	return slices.ContainsFunc(rows, func(r serviceRow) bool {
		return slices.ContainsFunc(r.Frontends, func(f frontendRow) bool { return f.instead })
	})
}

const policedText = "the cluster has NetworkPolicies, or has not said that it has none: the kernel serves all, for what goes through Envoy passes by them"

// twoPaths reports whether the kernel serves what Envoy does not.
func (w *world) twoPaths() bool { return w.opts.Datapath != topology.DatapathNone }

// kernelState is what the kernel path holds, where there is one; nil where not. What no Service
// has of an address may be a node port: which addresses the node has is not known.
func (w *world) kernelState(cfg *plan.Config, q *rules.Question) *rules.KernelState {
	if !w.twoPaths() {
		return nil
	}
	cfg.Kernel = &plan.Kernel{}
	var nodePorts []netip.Addr
	if !w.addressed(q.To) {
		nodePorts = []netip.Addr{q.To.Addr}
	}
	planner := plan.NewKernelPlanner(*cfg, nodePorts)
	for _, s := range w.view.Sorted() {
		planner.Set(s.Key.String(), plan.KernelOf(s))
	}
	planner.Settle()
	q.ToNode = len(nodePorts) > 0 && planner.Has(q.To)
	return rules.KernelStateOf(planner)
}

// addressed reports whether an address is a ClusterIP, or has that port by a Service of its own: an
// external one may be a node's, too, which has node ports beside.
func (w *world) addressed(to topology.Frontend) bool {
	return slices.ContainsFunc(w.view.Sorted(), func(s *topology.ServiceView) bool {
		return slices.ContainsFunc(s.Frontends, func(f topology.FrontendView) bool { return f.Addr == to.Addr }) ||
			slices.ContainsFunc(s.Outside, func(o topology.Outside) bool { return o.Frontend == to })
	})
}

// inKernel says of a packet that the kernel path decides on who may answer, or why nobody
// does. Who is no pod of the node counts as from elsewhere.
func (w *world) inKernel(out *walk, step *rules.Tracing, q rules.Question) {
	s, f, o := w.dialled(q)
	var tiers []topology.Tier
	switch {
	case f != nil:
		tiers = f.Tiers
	case o != nil && step.FromElsewhere():
		tiers = o.LocalTiers
	case o != nil:
		tiers = o.Tiers
	}
	out.Tiers = w.pickedFrom(tiers, step.Ends)
	if step.Fate != rules.ToEnd {
		out.because(w.sure(q.To, w.shut(step, q, s, f, o)))
	}
	if q.ToNode {
		door := fmt.Sprintf("%d is the node port of service %s, where %s is an address at which this node serves node ports (--nodeport-addresses); elsewhere the packet passes", q.To.Port, s.Key, q.To.Addr)
		out.Steps = append([]string{door}, out.Steps...)
	}
	out.Steps = append(w.whyKernel(f != nil && f.Path == topology.PathEnvoy), out.Steps...)
}

// dialled is the Service of a frontend, and that: one of its ClusterIPs, or another.
func (w *world) dialled(q rules.Question) (*topology.ServiceView, *topology.FrontendView, *topology.Outside) {
	for _, s := range w.view.Sorted() {
		for i := range s.Frontends {
			if f := &s.Frontends[i]; f.Frontend == q.To {
				return s, f, nil
			}
		}
		for i := range s.Outside {
			o := &s.Outside[i]
			atNode := q.ToNode && o.Kind == topology.NodePort && o.Port == q.To.Port && o.Protocol == q.To.Protocol && o.Addr.Is4() == q.To.Addr.Is4()
			if o.Frontend == q.To || atNode {
				return s, nil, o
			}
		}
	}
	return nil, nil, nil
}

// pickedFrom is the tier that the kernel path chooses from.
func (w *world) pickedFrom(tiers []topology.Tier, ends []netip.AddrPort) []tierRow {
	for _, t := range tiers {
		row := topology.Tier{Key: t.Key}
		for _, e := range t.Endpoints {
			if slices.Contains(ends, e.Addr) {
				row.Endpoints = append(row.Endpoints, e)
			}
		}
		if len(row.Endpoints) > 0 {
			return w.tierRows([]topology.Tier{row})
		}
	}
	return []tierRow{}
}

// shut is why the kernel path lets nobody answer.
func (w *world) shut(step *rules.Tracing, q rules.Question, s *topology.ServiceView, f *topology.FrontendView, o *topology.Outside) *refusal.Cause {
	switch {
	case f != nil:
		return refusal.Of(w.snap, w.view, w.opts, q.To)
	case step.Shut():
		return &refusal.Cause{Service: s.Key.String(), Why: "lets nobody in from " + q.Client.String(), Cure: "add the client to spec.loadBalancerSourceRanges"}
	case step.FromElsewhere():
		return &refusal.Cause{Service: s.Key.String(), Why: "has no endpoint on this node, and externalTrafficPolicy Local", Cure: "dial a node that has one"}
	}
	for _, same := range s.Frontends { // whose tiers it has
		if same.PortName == o.PortName && same.Protocol == o.Protocol && same.Addr.Is4() == o.Addr.Is4() && !s.Service.InternalLocal {
			return refusal.Of(w.snap, w.view, w.opts, same.Frontend)
		}
	}
	return &refusal.Cause{Service: s.Key.String(), Why: "has no endpoint at this port that this node may reach", Cure: "see gridmesh view of it"}
}
