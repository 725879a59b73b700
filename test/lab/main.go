// Command lab runs a Kubernetes cluster with edge sites on this machine, in
// namespaces of its own, and lets people cut its links and look inside.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
)

func main() {
	root, code := command(), 0
	keepCode(root, &code)
	if failed := run.Main(root, codeOf); failed != 0 {
		code = failed
	}
	os.Exit(code)
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "lab", Short: "A Kubernetes cluster with edge sites on this machine, in namespaces of its own",
		Long: `A Kubernetes cluster with edge sites on this machine, in namespaces of its own.

"lab up" starts it and stays in the foreground; the other commands talk to the
one that runs. When it ends, by Ctrl-C or kill -9, nothing is left behind.

Exit codes: 0 all is well, 1 failure, 2 wrong flags or commands, or the name of
something that the lab does not have; of "exec", "kubectl", "grid" and "health" the
command's, 127 where there is no such command.`,
		Version: obs.Version(), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(upCommand(), demoCommand(), soakCommand(), spinCommand(), benchCommand(), changesCommand(), gridsCommand(), dnsCommand())
	root.AddCommand(remoteCommands()...)
	return root
}

// keepCode has commands that ran inside end lab with their exit code, in
// silence: they have said what was wrong.
func keepCode(cmd *cobra.Command, code *int) {
	if act := cmd.RunE; act != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := act(cmd, args)
			var inside exitCode
			if errors.As(err, &inside) {
				*code = int(inside)
				return nil
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		keepCode(sub, code)
	}
}

// sandboxed is a command that builds a cluster: it runs in namespaces of its own.
func sandboxed(f func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return kept(func() (bool, error) { return false, nil }, func(ctx context.Context, _ *server) error { return f(ctx) })
}

// checked is sandboxed; check refuses what cannot be.
func checked(check func() error, f func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return kept(func() (bool, error) { return false, check() }, func(ctx context.Context, _ *server) error { return f(ctx) })
}

// atLeast refuses numbers that are less; they are given as flags and values.
func atLeast(least int, flagsAndValues ...any) error {
	for i := 0; i < len(flagsAndValues); i += 2 {
		if n := flagsAndValues[i+1].(int); n < least {
			return usagef("--%s %d: must be at least %d", flagsAndValues[i], n, least)
		}
	}
	return nil
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
		if sandbox.Outside() { // before minutes are spent
			if err := missing(); err != nil {
				return err
			}
			if serve {
				if address, err = listen(); err != nil {
					return err
				}
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
