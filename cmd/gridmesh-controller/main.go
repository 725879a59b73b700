// Command gridmesh-controller runs what grids describe in every unit.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

func main() {
	run.StillHeap()
	os.Exit(run.Main(command(), nil))
}

func command() *cobra.Command {
	c := defaults()
	root := &cobra.Command{
		Use:   "gridmesh-controller",
		Short: "Runs what DeploymentGrids, StatefulSetGrids and ServiceGrids describe in every unit",
		Long: `Runs what DeploymentGrids, StatefulSetGrids and ServiceGrids describe in every unit.

Every value of a grid's label key among the nodes is a unit, and gets a child
of its own. Several replicas may run; one of them acts.

Exit codes: 0 stopped, 1 failure, as the loss of its lease, 2 wrong flags or
commands.`,
		Example: "  gridmesh-controller --kubeconfig /etc/gridmesh/kubeconfig",
		Args:    cobra.NoArgs, Version: obs.Version(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := obs.NewLog(os.Stderr, c.verbose)
			if err := c.complete(cmd.Flags(), log); err != nil {
				return err
			}
			return control(cmd.Context(), c, log)
		},
	}
	c.bind(root.Flags())
	root.AddCommand(cleanupHealth(c))
	return root
}
