package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/kube"
	kubeobjects "github.com/gridmesh/gridmesh/kube/objects"
	"github.com/gridmesh/gridmesh/topology"
)

func gridCommand() *cobra.Command {
	cmd := group("grid", "Show what grids make in every unit, what is wrong there, and roll them back", `Show what grids make in every unit, what is wrong there, and roll them back.

The state comes from a cluster, which is found as kubectl finds it (--kubeconfig,
$KUBECONFIG, ~/.kube/config, in-cluster credentials), or from manifests (-f), as
"kubectl get -o yaml" prints them.`)
	cmd.AddCommand(gridListCommand(), gridUnitsCommand(), gridPlanCommand(), gridHistoryCommand(), gridRollbackCommand())
	return cmd
}

// gridInput is where grids are read from, and which of them.
type gridInput struct {
	reach
	namespace string
	all       bool
	guard     plan.Guard
	world     plan.World      // as it was read
	given     map[string]bool // what the manifests hold, and the files that cannot be read
	leaders   leaders
	// everywhere are the plans of all namespaces, whichever were asked for.
	everywhere []plan.Plan
}

func newGridInput(cmd *cobra.Command, manifests bool) *gridInput {
	in := &gridInput{guard: plan.DefaultGuard()}
	in.cmd, in.output = cmd, "table"
	f := cmd.Flags()
	in.bindCluster(f, "kubeconfig of a cluster (default $KUBECONFIG, then ~/.kube/config, then in-cluster credentials)")
	f.StringVarP(&in.namespace, "namespace", "n", names.DefaultNamespace, "namespace of the grids")
	in.completeNamespaces()
	if manifests {
		in.bindOutput(f)
		in.bindFiles(f, "directory or file of manifests, or - for standard input, instead of a cluster; may be given again")
		f.BoolVarP(&in.all, "all-namespaces", "A", false, "grids of every namespace, whatever -n says")
	}
	return in
}

// objects are the cluster's, or those of the manifests; with both, what the
// cluster has with the manifests applied to it.
func (in *gridInput) objects(ctx context.Context) (objects []map[string]any, problems []topology.Problem, err error) {
	if err := in.check(); err != nil {
		return nil, nil, err
	}
	if len(in.files) == 0 || in.clusterAsked() {
		if objects, err = in.live(ctx); err != nil {
			return nil, nil, err
		}
	}
	if len(in.files) > 0 {
		manifests, err := in.manifests()
		if err != nil {
			return nil, nil, err
		}
		files, bad, err := manifests.Objects()
		if err != nil {
			return nil, nil, err
		}
		in.leaders.read(files)
		objects, problems = append(objects, files...), bad
		in.given = map[string]bool{}
		for _, obj := range files {
			in.given[plan.RefOf(obj).String()] = true
		}
		for _, p := range bad {
			in.given[p.Object] = true
		}
	}
	return objects, problems, nil
}

// cluster connects, and asks whether anybody is there.
func (in *gridInput) cluster(ctx context.Context) (*kube.Client, error) {
	client, err := in.connect()
	if errors.Is(err, kube.ErrNoConfig) {
		cure := "use --kubeconfig F"
		if in.cmd.Flags().Lookup("filename") != nil {
			cure += ", or -f DIR for manifests"
		}
		return nil, fmt.Errorf("%w; %s", err, cure)
	}
	if err != nil {
		return nil, err
	}
	return client, in.late(client.Ask(ctx))
}

// late says how a slow API server is given more time.
func (in *gridInput) late(err error) error {
	if errors.Is(err, kube.ErrSlow) {
		return fmt.Errorf("%w (--timeout is %s)", err, in.timeout)
	}
	return err
}

// live are the objects of the cluster.
func (in *gridInput) live(ctx context.Context) ([]map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, in.timeout)
	defer cancel()
	client, err := in.cluster(ctx)
	if err != nil {
		return nil, err
	}
	kinds := grid.Kinds()
	for i := range kinds {
		if kinds[i].Kind == "Service" {
			kinds[i].Selector = "" // a template's serviceName may be of any
		}
	}
	list, err := kubeobjects.List(ctx, client, kinds)
	if err == nil {
		in.leaders.ask(ctx, client)
	}
	return list, in.late(client.Blame(kube.Slow(err)))
}

// plans plans the grids of the namespaces that were asked for.
func (in *gridInput) plans(ctx context.Context) ([]plan.Plan, []topology.Problem, error) {
	objects, problems, err := in.objects(ctx)
	if err != nil {
		return nil, nil, err
	}
	in.world = worldOf(objects)
	in.world.Part = len(in.files) > 0 && !in.clusterAsked()
	in.noteEmpty()
	in.noteFederated()
	in.everywhere = plan.All(in.world, in.guard, time.Now())
	plans := slices.DeleteFunc(slices.Clone(in.everywhere), func(p plan.Plan) bool {
		return !in.all && p.Grid.Namespace != in.namespace
	})
	for _, p := range plans {
		problems = append(problems, p.Problems...)
	}
	return plans, problems, nil
}

// noteEmpty says where the grids are, if none is in the namespace that was asked
// for: it may be mistyped, and an empty table looks as if all were well.
func (in *gridInput) noteEmpty() {
	var others []string
	for _, obj := range in.world.Grids {
		if others = append(others, plan.RefOf(obj).Namespace); in.all || slices.Contains(others, in.namespace) {
			return
		}
	}
	if in.all {
		in.note("there are no grids")
		return
	}
	if slices.Sort(others); len(others) == 0 {
		in.note("there are no grids, in namespace %s or any other", in.namespace)
		return
	}
	in.note("no grid is in namespace %s; there are in %s", in.namespace, plan.Short(slices.Compact(others)))
}

// noteFederated names grids that nobody here looks at, for they are of SuperEdge's federation.
func (in *gridInput) noteFederated() {
	var left []string
	for _, obj := range in.world.Grids {
		if ref := plan.RefOf(obj); (in.all || ref.Namespace == in.namespace) && plan.Federated(obj) {
			left = append(left, ref.String())
		}
	}
	if len(left) > 0 {
		in.note("%s: of SuperEdge's federation by a label %s or %s, and left alone: nothing is made of it, and what was made stays; without the label it is a grid as any",
			plan.Short(left), names.Federated, names.Distributed)
	}
}

// review are likely mistakes in the grids of the manifests.
func (in *gridInput) review() []topology.Problem {
	return slices.DeleteFunc(plan.Review(in.world), func(p topology.Problem) bool { return !in.given[p.Object] })
}

// own are the problems of the manifests; those of other grids of a cluster are
// not theirs. Without manifests they are all of what was asked for.
func (in *gridInput) own(problems []topology.Problem) []topology.Problem {
	if in.given == nil {
		return problems
	}
	return slices.DeleteFunc(slices.Clone(problems), func(p topology.Problem) bool { return !in.given[p.Object] })
}

// worldOf sorts objects. Of two with one name the later stands, as if it were
// applied to the earlier.
func worldOf(objects []map[string]any) plan.World {
	seen := map[plan.Ref]map[string]any{}
	var order []plan.Ref
	for _, obj := range objects {
		ref := plan.RefOf(obj)
		if old, again := seen[ref]; again {
			obj = overlay(old, obj)
		} else {
			order = append(order, ref)
		}
		seen[ref] = obj
	}
	var w plan.World
	for _, ref := range order {
		w.Add(seen[ref])
	}
	return w
}

// overlay is an object as it is once it is applied to an older one.
func overlay(old, obj map[string]any) map[string]any {
	out := maps.Clone(obj)
	metadata, _ := obj["metadata"].(map[string]any)
	was, _ := old["metadata"].(map[string]any)
	if metadata["uid"] != nil {
		return out
	}
	if metadata = maps.Clone(metadata); metadata == nil { // as a kustomization.yaml has none
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["creationTimestamp"] = was["uid"], was["creationTimestamp"]
	out["metadata"] = metadata
	if status, ok := old["status"]; ok {
		out["status"] = status
	}
	return out
}

// flush ends a table and names the problems below it.
func flush(t *tabwriter.Writer, out io.Writer, problems []topology.Problem) error {
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(out, "problem:", oneLine(p))
	}
	return nil
}
