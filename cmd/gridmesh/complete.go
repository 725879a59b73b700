package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// impatience is how long a shell that completes a word waits for a state.
const impatience = 2 * time.Second

// completion is the form that Cobra wants.
type completion = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// completeFrom completes the first argument, or a flag, from what of returns;
// what cannot be read completes nothing.
func (r *reach) completeFrom(of func(context.Context) []string) completion {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, impatience)
		defer cancel()
		if r.timeout = min(r.timeout, impatience); slices.Contains(r.files, source.Stdin) {
			return nil, cobra.ShellCompDirectiveNoFileComp // it is the terminal
		}
		list := slices.DeleteFunc(of(ctx), func(name string) bool { return !strings.HasPrefix(name, word) })
		slices.Sort(list)
		return slices.Compact(list), cobra.ShellCompDirectiveNoFileComp
	}
}

// first completes the first argument alone, and the second from a fixed list.
func first(complete completion, second ...string) completion {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return complete(cmd, args, word)
		case 1:
			return second, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNodes completes --node.
func (in *input) completeNodes() {
	_ = in.cmd.RegisterFlagCompletionFunc("node", in.completeFrom(func(ctx context.Context) (list []string) {
		if snap, err := in.snapshot(ctx); err == nil {
			list = snap.Nodes.SortedKeys(strings.Compare)
		}
		return list
	})) // the flag exists
}

// completeNamespaces completes --namespace: those that have Services.
func (in *input) completeNamespaces() {
	_ = in.cmd.RegisterFlagCompletionFunc("namespace", in.completeServices(func(key topology.ObjectKey) string { return key.Namespace })) // the flag exists
}

// completeServices are the state's Services, in a form.
func (in *input) completeServices(form func(topology.ObjectKey) string) completion {
	return in.completeFrom(func(ctx context.Context) (list []string) {
		snap, err := in.snapshot(ctx)
		if err != nil {
			return nil
		}
		for _, key := range servicesOf(snap) {
			list = append(list, form(key))
		}
		return list
	})
}

// completeNamespaces completes --namespace: those that have grids.
func (in *gridInput) completeNamespaces() {
	_ = in.cmd.RegisterFlagCompletionFunc("namespace", in.completeFrom(func(ctx context.Context) (list []string) {
		for _, ref := range in.grids(ctx) {
			list = append(list, ref.Namespace)
		}
		return list
	})) // the flag exists
}

// grids are all that there are, for a shell that completes.
func (in *gridInput) grids(ctx context.Context) (list []plan.Ref) {
	objects, _, err := in.objects(ctx)
	if err != nil {
		return nil
	}
	for _, obj := range worldOf(objects).Grids {
		list = append(list, plan.RefOf(obj))
	}
	return list
}

// completeGrids are the grids of the namespace that is asked for.
func (in *gridInput) completeGrids() completion {
	return first(in.completeFrom(func(ctx context.Context) (list []string) {
		for _, ref := range in.grids(ctx) {
			if kind, ok := plan.FindKind(ref.Kind); ok && ref.Namespace == in.namespace {
				list = append(list, kind.Short+"/"+ref.Name)
			}
		}
		return list
	}))
}
