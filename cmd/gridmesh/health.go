package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/health/report"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
)

// healthInput is where the state of node health is read from, and what is asked of it.
type healthInput struct {
	reach
	unit     string
	unitKey  string
	now      string
	autonomy time.Duration
	cfg      report.Config
}

func healthCommand() *cobra.Command {
	in := &healthInput{cfg: report.Default()}
	cmd := &cobra.Command{
		Use:   "health [NODE]",
		Short: "Show what units say of their nodes, what the cloud believes, and what is to become of them",
		Long: `Show what units say of their nodes, what the cloud believes, and what is to become of them.

Of each unit: who answered in the last vote of all, who leads it, how long ago its
Lease was renewed, and so whether it has an uplink. Of each node that is not as it
should be (-o wide, --unit and NODE: of any): the verdict and what it rests on, the
condition Ready, what is to become of its pods, why, and what happens next, if
nobody says anything new.

The state comes from a cluster, which is found as kubectl finds it, or was
recorded (-f): Nodes, Leases (of the namespace of gridmesh-health, and of
kube-node-lease for heartbeats) and the list of shielded nodes, as "kubectl get -o
yaml" prints them, and what "gridmesh-health status -o json" printed on nodes, of
which it draws who sees whom. The time is then that of the newest stamp in it.

Exit codes: 0 all is told, 1 failure, or a problem, which is printed: what cannot
be read, or contradicts itself, as a node that is to be kept and is on no list. A
node that is shielded, held or dead is none.`,
		Example: `  gridmesh health
  gridmesh health edge-7
  gridmesh health --unit shop-7 -o wide
  gridmesh health -f state --unit-key site --now 2026-01-02T03:04:05Z`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), func(_ *cobra.Command, args []string) error { return given(args) }),
		RunE: func(cmd *cobra.Command, args []string) error { return in.show(cmd.Context(), cmd.OutOrStdout(), args) },
	}
	in.cmd = cmd
	f := cmd.Flags()
	in.bindFiles(f, "directory or file of what was recorded, or - for standard input, instead of a cluster; may be given again")
	in.bindCluster(f, "kubeconfig of a cluster (default $KUBECONFIG, then ~/.kube/config, then in-cluster credentials)")
	in.bindLenient(f)
	in.bindOutput(f, wide)
	f.StringVarP(&in.cfg.Namespace, "namespace", "n", in.cfg.Namespace, "namespace of gridmesh-health: of the units' Leases and the list of shielded nodes")
	f.StringVar(&in.unit, "unit", "", "only this unit, and all of its nodes")
	f.StringVar(&in.unitKey, "unit-key", "", "label of Nodes whose value is their unit (default: the one that has the units of the Leases)")
	f.StringVar(&in.now, "now", "", "the time of what was recorded, as 2026-01-02T03:04:05Z (default: of its newest stamp)")
	f.DurationVar(&in.autonomy, "autonomy", in.cfg.Rules.Autonomy, "how long all pods of a unit without uplink are kept, as the controller's --health-autonomy; 0 for ever")
	_ = cmd.RegisterFlagCompletionFunc("unit", in.completeFrom(func(ctx context.Context) []string { return in.names(ctx, true) })) // the flag exists
	cmd.ValidArgsFunction = first(in.completeFrom(func(ctx context.Context) []string { return in.names(ctx, false) }))
	return cmd
}

// names are all units, or all nodes, for a shell that completes.
func (in *healthInput) names(ctx context.Context, units bool) []string {
	r, _, err := in.report(ctx)
	if err != nil {
		return nil
	}
	return namesIn(r, units)
}

// check refuses what cannot be meant.
func (in *healthInput) check(args []string) error {
	switch {
	case len(args) > 0 && in.unit != "":
		return fmt.Errorf("%w: give a node or --unit, not both", run.ErrUsage)
	case len(in.files) > 0 && in.clusterAsked():
		return fmt.Errorf("%w: -f and --kubeconfig (or --context) exclude each other", run.ErrUsage)
	case in.now != "" && len(in.files) == 0:
		return fmt.Errorf("%w: --now is of what was recorded: give -f, or leave it out", run.ErrUsage)
	case in.autonomy < 0:
		return fmt.Errorf("%w: --autonomy %s: must not be negative", run.ErrUsage, in.autonomy)
	}
	return in.reach.check()
}

// report makes it of what the flags say.
func (in *healthInput) report(ctx context.Context) (*report.Report, []topology.Problem, error) {
	state, problems, err := in.state(ctx)
	if err != nil {
		return nil, nil, err
	}
	now, err := in.moment(state)
	if err != nil {
		return nil, nil, fmt.Errorf("%w%s", err, besides(problems))
	}
	if in.cfg.UnitKey, err = in.key(state); err != nil {
		return nil, nil, fmt.Errorf("%w%s", err, besides(problems))
	}
	in.cfg.Rules.Autonomy = in.autonomy
	return report.Of(state, in.cfg, now), problems, nil
}

func (in *healthInput) show(ctx context.Context, w io.Writer, args []string) error {
	if err := in.check(args); err != nil {
		return err
	}
	r, problems, err := in.report(ctx)
	if err != nil {
		return err
	}
	shown := report.Shown{All: in.output == wide || in.unit != "", Wide: in.output == wide}
	if r, err = in.narrow(r, args); err != nil {
		return fmt.Errorf("%w%s", err, besides(problems))
	}
	for _, text := range r.Notes {
		in.note("%s", text)
	}
	if problems = append(problems, r.Problems...); len(r.Units)+len(r.Matrices) == 0 {
		in.note("no node has the label %s, and there is nothing to show", in.cfg.UnitKey)
	}
	doc := map[string]any{"now": r.Now, "unitKey": r.UnitKey, "units": r.Units, "matrices": slices.Concat([]*report.Matrix{}, r.Matrices), "problems": problemTexts(problems)}
	return in.judge(problems, in.print(w, doc, func(out io.Writer) error {
		if len(args) > 0 && in.output != wide {
			err = r.WriteNode(out)
		} else {
			err = r.WriteText(out, shown)
		}
		for _, p := range problems {
			fmt.Fprintln(out, "problem:", oneLine(p))
		}
		return err
	}))
}

var errNotThere = errors.New("this state does not have it")

// narrow leaves what was asked for.
func (in *healthInput) narrow(r *report.Report, args []string) (*report.Report, error) {
	switch {
	case in.unit != "":
		if one, ok := r.Unit(in.unit); ok {
			return one, nil
		}
		return nil, fmt.Errorf("%w: unit %s%s", errNotThere, in.unit, present(r, true))
	case len(args) > 0:
		name := strings.TrimPrefix(strings.TrimPrefix(args[0], "node/"), "nodes/")
		if one, ok := r.Node(name); ok {
			return one, nil
		}
		return nil, fmt.Errorf("%w: node %s, in any unit of the label %s%s", errNotThere, name, in.cfg.UnitKey, present(r, false))
	}
	return r, nil
}
