package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/health/report"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/typed"
	"github.com/gridmesh/gridmesh/topology"
)

// state reads it from manifests, or from a cluster.
func (in *healthInput) state(ctx context.Context) (*report.State, []topology.Problem, error) {
	if len(in.files) == 0 {
		s, err := in.live(ctx)
		return s, nil, err
	}
	manifests, err := in.manifests()
	if err != nil {
		return nil, nil, err
	}
	objects, problems, err := manifests.Objects()
	if err != nil {
		return nil, nil, err
	}
	s, more := report.Read(objects)
	in.noteEmpty()
	problems = slices.DeleteFunc(problems, func(p topology.Problem) bool {
		kind, _, _ := strings.Cut(p.Object, " ")
		return !slices.Contains(ofHealth, kind)
	})
	return &s, append(problems, more...), nil
}

// noteEmpty names empty files in the directories: of what was to be recorded there nothing is.
func (in *healthInput) noteEmpty() {
	for _, dir := range in.files {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // it was read
			if err == nil && !d.IsDir() && path != dir && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
				if info, err := d.Info(); err == nil && info.Size() == 0 {
					in.note("%s is empty, and what was to be recorded in it is not known: did the command that wrote it fail, or has the cluster none of that?", path)
				}
			}
			return nil
		})
	}
}

// ofHealth is what Problems are of that matter to node health, and what cannot be read,
// and may be anything.
var ofHealth = []string{"node", "lease", "nodetable", "file", "standard", "manifests"}

// moment is the time that is reckoned with.
func (in *healthInput) moment(s *report.State) (time.Time, error) {
	if in.now != "" {
		t, err := time.Parse(time.RFC3339, in.now)
		if err != nil {
			return t, fmt.Errorf("%w: --now %q is no time as 2026-01-02T03:04:05Z", run.ErrUsage, in.now)
		}
		return t, nil
	}
	if !s.Recorded {
		return time.Now(), nil
	}
	at, of := s.Newest()
	if at.IsZero() {
		return at, fmt.Errorf("%w: nothing in -f has a time: are Nodes, Leases or what a gridmesh-health says among it? Else say when it was, with --now", run.ErrUsage)
	}
	in.note("the time is taken to be %s, by %s; --now gives another", at.Format(time.RFC3339), of)
	return at, nil
}

// key is the label of units.
func (in *healthInput) key(s *report.State) (string, error) {
	keys := s.UnitKeys()
	if in.unitKey != "" {
		labelled := func(n corev1.Node) bool { return n.Labels[in.unitKey] != "" }
		if len(s.Nodes) > 0 && !slices.ContainsFunc(s.Nodes, labelled) {
			text := ""
			if len(keys) > 0 {
				text = "; the units may be those of the label " + plan.Short(keys)
			}
			return "", fmt.Errorf("%w: a node with the label %s%s", errNotThere, in.unitKey, text)
		}
		return in.unitKey, nil
	}
	switch {
	case len(keys) == 1 || len(keys) > 1 && s.SameUnits(keys):
		return keys[0], nil
	case len(keys) > 1:
		return "", fmt.Errorf("%w: the units may be those of the labels %s: give --unit-key, as gridmesh-health has it", run.ErrUsage, plan.Short(keys))
	case len(s.Nodes) == 0 && len(s.Told) > 0:
		return "", nil
	case len(s.Nodes) == 0:
		return "", fmt.Errorf("%w: there are no Nodes here: add them (kubectl get nodes -o yaml)", errNotThere)
	}
	return "", fmt.Errorf("%w: a Lease of a unit, which tells which label of Nodes has the units: give --unit-key, as gridmesh-health has it; is it installed, and in namespace %s (-n)?", errNotThere, in.cfg.Namespace)
}

// live asks a cluster.
func (in *healthInput) live(ctx context.Context) (*report.State, error) {
	ctx, cancel := context.WithTimeout(ctx, in.timeout)
	defer cancel()
	client, err := in.connect()
	if errors.Is(err, kube.ErrNoConfig) {
		return nil, fmt.Errorf("%w; health is told by a cluster: run it where kubectl finds one, use --kubeconfig F, or -f DIR for what was recorded; on a node gridmesh-health status tells what it knows", err)
	}
	if err == nil {
		err = client.Ask(ctx)
	}
	s := &report.State{}
	if err == nil {
		err = in.fetch(ctx, client, s)
	}
	if errors.Is(err, kube.ErrSlow) {
		err = fmt.Errorf("%w (--timeout is %s)", err, in.timeout)
	}
	return s, err
}

// fetch asks for what a report is made of.
func (in *healthInput) fetch(ctx context.Context, client *kube.Client, s *report.State) error {
	err := typed.EachNode(ctx, client, func(n *corev1.Node) error {
		s.Nodes = append(s.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations},
			Spec:       corev1.NodeSpec{Taints: n.Spec.Taints}, Status: corev1.NodeStatus{Conditions: n.Status.Conditions},
		})
		return nil
	})
	if err == nil {
		err = in.leases(ctx, client, s, in.cfg.Namespace, metav1.ListOptions{LabelSelector: names.UnitLease})
	}
	if err == nil {
		s.Shield, err = shieldOf(ctx, client, in.cfg.Namespace)
	}
	if apierrors.IsForbidden(err) { // as in gridmesh's own pods, none of which has all of it
		return fmt.Errorf("%w; gridmesh health is for people, and no program of gridmesh's has the rights: it lists nodes, lists leases in the namespaces %s and %s, "+
			"and gets the nodetable %s; run it by an administrator's kubeconfig, or bind a role that may (docs/health.md has one)", client.Blame(err), in.cfg.Namespace, corev1.NamespaceNodeLease, names.Shield)
	}
	if err != nil {
		return client.Blame(kube.Slow(err))
	}
	if err := in.leases(ctx, client, s, corev1.NamespaceNodeLease, metav1.ListOptions{}); err != nil {
		in.note("heartbeats are as old as Nodes have them, minutes perhaps: %v", err)
	}
	return nil
}

// leases asks for those of a namespace.
func (in *healthInput) leases(ctx context.Context, client *kube.Client, s *report.State, namespace string, o metav1.ListOptions) error {
	o.Limit = kube.PageSize
	return kube.Pages(o, func(o metav1.ListOptions) (runtime.Object, error) {
		list, err := client.Leases.Leases(namespace).List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list leases in namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			l := &list.Items[i]
			s.Leases = append(s.Leases, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name, Labels: l.Labels}, Spec: l.Spec})
		}
		return list, nil
	})
}

// shieldOf asks for the list of shielded nodes; one that is not there is empty.
func shieldOf(ctx context.Context, client *kube.Client, namespace string) (*report.Shield, error) {
	data, err := typed.Table(ctx, client, namespace, names.Shield)
	switch {
	case apierrors.IsNotFound(err): // or its kind is not
		return &report.Shield{}, nil
	case err != nil:
		return nil, fmt.Errorf("get the list of shielded nodes: %w", err)
	}
	return &report.Shield{Data: data}, nil
}

// present names some of what is there, in place of what is not.
func present(r *report.Report, units bool) string {
	list := namesIn(r, units)
	if len(list) == 0 {
		return ""
	}
	return "; there are " + strings.TrimSpace(plan.Short(list))
}

// namesIn are those of all units, or of all nodes in them.
func namesIn(r *report.Report, units bool) (list []string) {
	for _, u := range r.Units {
		if units {
			list = append(list, u.Name)
			continue
		}
		for i := range u.Nodes {
			list = append(list, u.Nodes[i].Name)
		}
	}
	return list
}
