// Command gridmesh-admission keeps what is well on nodes that only lost their uplink.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

func main() { os.Exit(run.Main(command(), nil)) }

func command() *cobra.Command {
	c := defaults()
	root := &cobra.Command{
		Use:   "gridmesh-admission",
		Short: "Keeps pods and endpoints of nodes that lost their uplink and are well",
		Long: `Keeps pods and endpoints of nodes that lost their uplink and are well.

A webhook: it gives writes of Kubernetes' controllers back as they were, for the
nodes that gridmesh-controller lists in the NodeTable gridmesh-shield. It refuses
nothing. Several replicas may run; all answer, one makes their certificate.

Exit codes: 0 stopped, 1 failure, 2 wrong flags or commands.`,
		Example: "  gridmesh-admission --kubeconfig /etc/gridmesh/kubeconfig",
		Args:    cobra.NoArgs, Version: obs.Version(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := obs.NewLog(os.Stderr, c.verbose)
			if err := c.complete(cmd.Flags(), log); err != nil {
				return err
			}
			return admit(cmd.Context(), c, log)
		},
	}
	c.bind(root.Flags())
	return root
}
