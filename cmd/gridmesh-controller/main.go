// Command gridmesh-controller runs what grids describe in every unit.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/obs"
)

var errUsage = errors.New("wrong flags")

func main() { os.Exit(execute()) }

func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "gridmesh-controller:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

func command() *cobra.Command {
	c := defaults()
	root := &cobra.Command{
		Use:   "gridmesh-controller",
		Short: "Runs what DeploymentGrids, StatefulSetGrids and ServiceGrids describe in every unit",
		Long: `Runs what DeploymentGrids, StatefulSetGrids and ServiceGrids describe in every unit.

Every value of a grid's label key among the nodes is a unit, and gets a child
of its own. Several replicas may run; one of them acts.`,
		Example: "  gridmesh-controller --kubeconfig /etc/gridmesh/kubeconfig",
		Args:    cobra.NoArgs, Version: obs.Version(), SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := obs.NewLog(os.Stderr, c.verbose)
			if err := c.complete(cmd.Flags(), log); err != nil {
				return err
			}
			return run(cmd.Context(), c, log)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	c.bind(root.Flags())
	return root
}
