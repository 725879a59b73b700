package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/node/migrate"
)

// exitYours is of node migrate alone: the next step is not this program's.
const exitYours = 3

func exitCode(err error) int {
	if errors.Is(err, migrate.ErrYours) {
		return exitYours
	}
	return 0
}

func nodeCommand() *cobra.Command {
	cmd := group("node", "Leads the node that it runs on from kube-proxy to gridmesh, or back", "Looks at the node that it runs on, and leads it from kube-proxy to gridmesh, or back.")
	cmd.AddCommand(migrateCommand())
	return cmd
}

// migration is what the flags of node migrate say.
type migration struct {
	reach
	want   migrate.Want
	node   migrate.Node
	dryRun bool
}

func migrateCommand() *cobra.Command {
	m := &migration{want: migrate.Want{Datapath: "auto"}, node: migrate.Node{Proc: "/proc"}}
	cmd := &cobra.Command{
		Use:   "migrate [--dry-run] [--back]",
		Short: "Lead this node from kube-proxy to gridmesh, or back, step by step",
		Long: `Lead this node from kube-proxy to gridmesh, or back, step by step.

With --dry-run it prints what is on the node, what gridmesh does otherwise than
kube-proxy was told, and the steps. Without, it waits for those that come by
themselves, one after another: until the agent serves, and until that has removed
what a kube-proxy left that is gone. It starts and stops no program: where that is
next it says so, and ends; run it again then. It changes nothing, and wants root.

Exit codes: 0 the node is there, or with --dry-run nothing is in the way, 1 failure,
or something has to be mended first, 2 wrong flags or commands, 3 the next step is
yours.`,
		Args:    cobra.NoArgs,
		Example: "  gridmesh node migrate --dry-run\n  gridmesh node migrate --dry-run --back -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return m.run(cmd.Context()) },
	}
	m.cmd = cmd
	f := cmd.Flags()
	f.BoolVar(&m.dryRun, "dry-run", false, "wait for nothing, and print what is to be done")
	f.BoolVar(&m.want.Back, "back", false, "to kube-proxy")
	f.StringVar(&m.want.Datapath, "datapath", m.want.Datapath, "of the agent: auto or kernel; envoy alone does not serve what kube-proxy does")
	f.StringVar(&m.node.StatusSocket, "status-socket", node.Default().StatusSocket, "Unix socket on which the agent tells its status")
	f.DurationVar(&m.timeout, "timeout", 5*time.Minute, "how long all of it may take")
	run.Files(f, "status-socket")
	m.bindOutput(f)
	choices(cmd, "datapath", migrateDatapaths...)
	return cmd
}

var migrateDatapaths = []string{"auto", "kernel"}

func (m *migration) run(ctx context.Context) error {
	if err := m.check(); err != nil {
		return err
	}
	if !slices.Contains(migrateDatapaths, m.want.Datapath) {
		return fmt.Errorf("%w: --datapath %q: use auto or kernel; envoy alone does not serve node ports, load balancers' addresses and UDP, which kube-proxy does", run.ErrUsage, m.want.Datapath)
	}
	if err := capture.Permitted(); err != nil {
		return fmt.Errorf("look at the rules of this node, which wants root: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	out := m.cmd.OutOrStdout()
	if !m.dryRun {
		return migrate.Run(ctx, m.node, m.want, readable{out})
	}
	seen, err := m.node.Look(ctx)
	if err != nil {
		return err
	}
	plan := migrate.Of(seen, m.want)
	if err := m.print(out, plan, plan.WriteText); err != nil {
		return err
	}
	if len(plan.Blocked) > 0 {
		return fmt.Errorf("%w: %s", migrate.ErrBlocked, plan.Blocked[0])
	}
	return nil
}
