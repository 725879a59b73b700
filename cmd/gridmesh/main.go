// Command gridmesh is for people: it shows what a node may reach and why, from
// manifests, from a cluster, or from the agent of this node.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

func main() {
	cmd := command()
	cmd.SetErr(readable{os.Stderr}) // errors repeat what others wrote
	os.Exit(run.Main(cmd, exitCode))
}

func command() *cobra.Command {
	root := group("gridmesh", "Shows what a node may reach, in which order, and why not the rest", `Shows what a node may reach, in which order, and why not the rest.

The state comes from directories or files of manifests (-f, or -f - for standard
input), from a cluster (--kubeconfig), or from the agent of this node (--socket,
the default), or what that keeps on disk (--state-dir). Where no agent runs it
comes from the cluster that kubectl would ask: $KUBECONFIG, ~/.kube/config,
in-cluster credentials.

Exit codes: 0 all is well, 1 failure, a problem in what was asked for, a name
that does not exist (dns), or a packet that is refused or not served (trace; none
of these with --lenient), 2 wrong flags or commands. node migrate has one more.`)
	root.Version = obs.Version()
	root.AddCommand(viewCommand(), xdsCommand(), traceCommand(), gridCommand(), dnsCommand(), nodeCommand(), healthCommand())
	run.Elsewhere(root, "status", "gridmesh-agent status, on the node")
	return root
}

// group is a command that has only others below it.
func group(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// given refuses arguments that are empty, as a variable of a shell that is not set.
func given(args []string) error {
	for i, arg := range args {
		if strings.TrimSpace(arg) == "" {
			return fmt.Errorf("%w: argument %d is empty; is a variable of the shell not set?", run.ErrUsage, i+1)
		}
	}
	return nil
}
