// Command lab runs a Kubernetes cluster with edge sites on this machine, in
// namespaces of its own, and lets people cut its links and look inside.
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
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "lab", Short: "A Kubernetes cluster with edge sites on this machine, in namespaces of its own",
		Long: `A Kubernetes cluster with edge sites on this machine, in namespaces of its own.

"lab up" starts it and stays in the foreground; the other commands talk to the
one that runs. When it ends, by Ctrl-C or kill -9, nothing is left behind.`,
		Version: obs.Version(), SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(upCommand(), demoCommand(), soakCommand(), spinCommand(), benchCommand(), changesCommand(), gridsCommand(), dnsCommand())
	root.AddCommand(remoteCommands()...)
	err := root.ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "lab:", err)
	return 1
}

// sandboxed is a command that builds a cluster: it runs in namespaces of its own.
func sandboxed(f func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if keep := cmd.Flags().Lookup("keep"); cmd.Name() == "up" || keep != nil && keep.Changed {
			if err := alone(); err != nil { // before minutes are spent
				return err
			}
		}
		var result error
		sandbox.Run(func() int {
			if result = f(cmd.Context()); result != nil {
				fmt.Println("lab:", result)
				return 1
			}
			return 0
		})
		return result
	}
}
