// Command gridmesh is for people: it shows what a node may reach and why, from
// manifests, from a cluster, or from the agent of this node.
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

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "gridmesh:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "gridmesh",
		Short: "Shows what a node may reach, in which order, and why not the rest",
		Long: `Shows what a node may reach, in which order, and why not the rest.

The state comes from a directory of manifests (-f), from a cluster
(--kubeconfig), or from the agent of this node (--socket, the default).`,
		Version: obs.Version(), SilenceErrors: true, SilenceUsage: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	root.AddCommand(viewCommand(), xdsCommand(), traceCommand(), gridCommand())
	return root
}
