package main

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// surroundings are what a snapshot leaves out, for it routes nothing, and a
// trace needs.
type surroundings struct {
	podCIDRs []netip.Prefix   // of the node
	services []corev1.Service // as they are written
	whole    bool             // the services are known
}

// surroundings reads them from where the snapshot came from. What cannot be
// told is missing, with a note: a trace goes on without.
func (in *input) surroundings(ctx context.Context) surroundings {
	ctx, cancel := context.WithTimeout(ctx, in.timeout)
	defer cancel()
	var s surroundings
	var err error
	switch {
	case in.origin == fromFiles:
		err = s.fromFiles(in)
	case in.origin == fromCluster:
		err = s.fromCluster(ctx, in)
	case in.another(ctx) != "": // its pods are not this node's
	case in.origin == fromDisk:
		s.podCIDRs = in.kept.PodCIDRs
	default:
		s.podCIDRs = in.agent(ctx).PodCIDRs
	}
	if err != nil {
		in.note("%v; give --pod-cidr where --from is a pod of this node", err)
	}
	return s
}

// another is the node whose agent told the state, or kept it, where one looks from another
// than that; "" where not, and where it does not say. What such an agent knows of a node it
// knows of its own.
func (in *input) another(ctx context.Context) string {
	of := in.agent(ctx).Node
	if in.kept != nil {
		of = in.kept.Node
	}
	if of == in.node {
		return ""
	}
	return of
}

// noteAnother says of a packet that leaves another node than the agent's what is not known
// of that.
func (in *input) noteAnother(ctx context.Context) {
	of := in.another(ctx)
	if of == "" {
		return
	}
	if len(in.pods) == 0 {
		in.note("the agent of %s does not know which pods are %s's: give --pod-cidr where --from is one", of, in.node)
	}
	in.note("whether %s has these rules in force, and an Envoy that serves, the agent of %s does not know: ask on %s", in.node, of, in.node)
}

// noteDatapath says whose --datapath is taken for the node's, where that matters: another
// agent's, or nobody's. Manifests are of no agent.
func (in *input) noteDatapath(ctx context.Context, w *world) {
	if in.origin == fromFiles || !w.twoPaths() || in.cmd.Flags().Changed("datapath") {
		return
	}
	agent := in.agent(ctx)
	switch {
	case agent.Node == "": // neither a cluster nor a last good state has it
		in.note("which --datapath the agent of %s has is not known here, and %s, the default, is taken: give the flag if it has another; with envoy, nothing of what is by the kernel here is served", in.node, w.opts.Datapath)
	case agent.Node != in.node:
		in.note("--datapath %s is what the agent of %s has: give the flag if that of %s has another", agent.Datapath, agent.Node, in.node)
	}
}

func (s *surroundings) fromFiles(in *input) error {
	manifests, err := in.manifests()
	if err != nil {
		return err
	}
	objects, _, err := manifests.Objects()
	if err != nil {
		return err
	}
	s.whole = true
	written := map[topology.ObjectKey]*corev1.Service{}
	for _, obj := range objects {
		switch obj["kind"] {
		case "Node":
			var n corev1.Node
			if runtime.DefaultUnstructuredConverter.FromUnstructured(obj, &n) == nil && n.Name == in.node {
				if list := convert.PodCIDRs(&n.Spec); len(list) > 0 { // a manifest over it has none, and they stay
					s.podCIDRs = list
				}
			}
		case "Service":
			var svc corev1.Service
			if obj["apiVersion"] == "v1" && runtime.DefaultUnstructuredConverter.FromUnstructured(obj, &svc) == nil {
				key := topology.ObjectKey{Namespace: orDefault(svc.Namespace), Name: svc.Name}
				svc.Namespace = key.Namespace
				written[key] = convert.PutOver(written[key], &svc)
			}
		}
	}
	for _, svc := range written {
		s.services = append(s.services, *svc)
	}
	return nil
}

func orDefault(namespace string) string {
	if namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

func (s *surroundings) fromCluster(ctx context.Context, in *input) error {
	client, err := in.connect()
	if err != nil {
		return err
	}
	own, err := client.OwnNode(ctx, in.node)
	if err != nil {
		return err
	}
	s.podCIDRs = own.PodCIDRs
	list, err := client.Typed.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	s.services, s.whole = list.Items, true
	return nil
}

// noteGrids says of manifests that have grids, and no Service, how they become
// some: an empty table looks as if nothing were to be served.
func (in *input) noteGrids(w *world) {
	if in.origin != fromFiles || len(servicesOf(w.snap)) > 0 {
		return
	}
	manifests, err := in.manifests()
	if err != nil {
		return // the snapshot was made of them
	}
	objects, _, err := manifests.Objects()
	if err == nil && len(worldOf(objects).Grids) > 0 {
		in.note("there are grids here, and no Service: gridmesh grid plan -o yaml makes Services of ServiceGrids")
	}
}

// unitFault says that the node lacks the label of a unit by mistake, in the words of its
// agent's finding; "" where it does not, and where not all nodes are known.
func (w *world) unitFault() string {
	if w.snap.Partial {
		return ""
	}
	var labels report.LabelIndex
	labels.Next(w.snap)
	keys := labels.Of(w.view)
	return keys.Fault(w.view.Viewpoint.Name)
}

// noteUnit says it where the output has no place for it.
func (in *input) noteUnit(w *world) {
	if fault := w.unitFault(); fault != "" {
		in.note("node %s %s", w.view.Viewpoint.Name, fault)
	}
}

// agent asks the agent that the state came from, once, what the state does not
// have; of another state, and of an agent that does not tell, nothing.
func (r *reach) agent(ctx context.Context) report.Report {
	if r.origin != fromAgent {
		return report.Report{}
	}
	if r.status == nil {
		r.status = &report.Report{}
		ctx, cancel := context.WithTimeout(ctx, r.timeout)
		defer cancel()
		if err := askAgent(ctx, r.status, filepath.Join(filepath.Dir(r.socket), "agent.sock")); err != nil {
			r.note("%v; give --node, and --pod-cidr where a client is a pod of this node", err)
		}
	}
	return *r.status
}

func askAgent(ctx context.Context, s *report.Report, socket string) error {
	if err := run.AskUnix(ctx, socket, "/status", s); err != nil {
		return fmt.Errorf("the agent does not tell its node: %w", err)
	}
	return nil
}

// unserved says which address of a Service it is that somebody dials and
// gridmesh does not serve, "" for none.
func (s *surroundings) unserved(to topology.Frontend) string {
	of, kind, ok := convert.OutsideOf(s.services, to)
	switch {
	case !ok:
		return ""
	case kind == topology.ExternalIP:
		return fmt.Sprintf("%s is an external address of service %s", to.Addr, of)
	case kind == topology.LoadBalancer:
		return fmt.Sprintf("%s is the load balancer's address of service %s", to.Addr, of)
	}
	return fmt.Sprintf("%d is the node port of service %s, where %s is a node's", to.Port, of, to.Addr)
}
