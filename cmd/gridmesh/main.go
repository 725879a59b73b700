// Command gridmesh is for people: it shows what a node may reach and why, from
// manifests, from a cluster, or from the agent of this node.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

func main() { os.Exit(run.Main(command(), nil)) }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "gridmesh",
		Short: "Shows what a node may reach, in which order, and why not the rest",
		Long: `Shows what a node may reach, in which order, and why not the rest.

The state comes from a directory of manifests (-f), from a cluster
(--kubeconfig), or from the agent of this node (--socket, the default).`,
		Version: obs.Version(),
	}
	root.AddCommand(viewCommand(), xdsCommand(), traceCommand(), gridCommand(), dnsCommand())
	return root
}
