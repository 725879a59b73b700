// Command gridmesh-health votes on the health of the nodes of its unit.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

func main() { os.Exit(run.Main(command(), nil)) }

func command() *cobra.Command {
	c, socket := defaults(), defaultSocket
	root := &cobra.Command{
		Use:   "gridmesh-health",
		Short: "Votes on the health of the nodes of its unit",
		Long: `Votes on the health of the nodes of its unit.

One runs on every node. Each checks some of the others, and more than half of
the unit decide whether one of them is well; one that holds the unit's Lease
writes that as annotations of the Node, superedgehealth/node-health and
superedgehealth/evidence. So a node that lost its uplink alone is told from one
that died.

The nodes of a unit share a key, of a file: without one nothing is exchanged.
"gridmesh-health status" shows what it knows.

Exit codes: 0 stopped, 1 failure, 2 wrong flags or commands.`,
		Example: "  gridmesh-health --node-name edge-7 --unit-key unit --key-file /etc/gridmesh/health/key",
		Args:    cobra.NoArgs, Version: obs.Version(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := obs.NewLog(os.Stderr, c.verbose)
			if err := c.complete(cmd.Flags(), log); err != nil {
				return err
			}
			return daemon(cmd.Context(), c, socket, log)
		},
	}
	c.bindFlags(root.Flags())
	root.PersistentFlags().StringVar(&socket, "status-socket", socket, "Unix socket on which it tells what it knows of its unit; empty for none")
	run.Files(root.PersistentFlags(), "status-socket")
	root.AddCommand(statusCommand(&socket))
	return root
}
