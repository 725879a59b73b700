// Command gridmesh is for people: it shows what a node may reach and why, from
// manifests, from a cluster, or from the agent of this node.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

func main() { os.Exit(run.Main(command(), nil)) }

func command() *cobra.Command {
	root := group("gridmesh", "Shows what a node may reach, in which order, and why not the rest", `Shows what a node may reach, in which order, and why not the rest.

The state comes from directories or files of manifests (-f, or -f - for standard
input), from a cluster (--kubeconfig), or from the agent of this node (--socket,
the default). Where no agent runs it comes from the cluster that kubectl would
ask: $KUBECONFIG, ~/.kube/config, in-cluster credentials.

Exit codes: 0 all is well, 1 failure, or a problem in what was asked for (not
with --lenient), 2 wrong flags or commands.`)
	root.Version = obs.Version()
	root.AddCommand(viewCommand(), xdsCommand(), traceCommand(), gridCommand(), dnsCommand())
	sayUsage(root)
	return root
}

// group is a command that has only others below it.
func group(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// noSuchCommand refuses a command that is none, and names those that are.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("%s has no command %q; it has %s\n%s", cmd.CommandPath(), args[0], strings.Join(names, ", "), strings.TrimSpace(cmd.UsageString()))
}

// sayUsage makes wrong and missing arguments a mistake in the flags.
func sayUsage(cmd *cobra.Command) {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := cmd.ValidateRequiredFlags()
		if check != nil {
			err = errors.Join(check(cmd, args), err)
		}
		switch {
		case err == nil:
			return nil
		case cmd.HasSubCommands(): // it named them
			return fmt.Errorf("%w: %w", run.ErrUsage, err)
		}
		return fmt.Errorf("%w: %w; say: %s", run.ErrUsage, err, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
	for _, sub := range cmd.Commands() {
		sayUsage(sub)
	}
}
