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
one that runs. When it ends, by Ctrl-C or kill -9, nothing is left behind.

Exit codes: 0 all is well, 1 failure, 2 wrong flags or commands, or the name of
something that the lab does not have; of "exec" and "kubectl" the command's.`,
		Version: obs.Version(), SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(upCommand(), demoCommand(), soakCommand(), spinCommand(), benchCommand(), changesCommand(), gridsCommand(), dnsCommand())
	root.AddCommand(remoteCommands()...)
	parsed := false
	root.PersistentPreRun = func(*cobra.Command, []string) { parsed = true }
	err := root.ExecuteContext(ctx)
	var inside exitCode
	if err != nil && !errors.As(err, &inside) {
		fmt.Fprintln(os.Stderr, "lab:", err)
	}
	if err != nil && !parsed {
		return exitUsage
	}
	return codeOf(err)
}

// sandboxed is a command that builds a cluster: it runs in namespaces of its own.
func sandboxed(f func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return kept(func() (bool, error) { return false, nil }, func(ctx context.Context, _ *server) error { return f(ctx) })
}

// kept is sandboxed; people may talk to the cluster where serves says so. It
// also refuses what cannot be, before anything is built. The server is nil
// where nobody is served.
func kept(serves func() (bool, error), f func(context.Context, *server) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		serve, err := serves()
		if err != nil {
			return err
		}
		var address *os.File
		if serve && sandbox.Outside() {
			if address, err = listen(); err != nil { // before minutes are spent
				return err
			}
		}
		sandbox.RunWith(address, func(handed *os.File) int {
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			var s *server
			if handed != nil {
				s, err = startServer(ctx, handed, stop)
			}
			if err == nil {
				err = f(ctx, s)
			}
			if err != nil && ctx.Err() != nil {
				err = errStopped // and that made all the rest fail
			}
			if err != nil {
				fmt.Println("lab:", err)
			}
			return codeOf(err)
		})
		return nil
	}
}
