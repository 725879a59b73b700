package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
)

// exitUnfit is for a node that is not fit: kube-proxy's rules, an agent that
// serves it already, whatever of it is met first, ranges that cannot be guarded,
// and where that is wanted NetworkPolicies.
const exitUnfit = 3

// exitNotAsked is of status --check alone: there is nobody to ask, as after a
// mistake in the flags.
const exitNotAsked = 2

func main() {
	run.StillHeap()
	os.Exit(run.Main(command(defaults()), exitCode))
}

// exitCode is the agent's own code for an error, 0 for none of its own.
func exitCode(err error) int {
	if errors.Is(err, errNotAsked) {
		return exitNotAsked
	}
	if errors.Is(err, node.ErrUnfit) || errors.Is(err, run.ErrInUse) {
		return exitUnfit
	}
	return 0
}

func command(c *config) *cobra.Command {
	root := &cobra.Command{
		Use:   "gridmesh-agent",
		Short: "Keeps a node's traffic in its unit: steers the local Envoy and the capture of packets",
		Long: `Keeps a node's traffic in its unit: steers the local Envoy and the capture of packets.

Runs until it is stopped. A stop leaves everything in force; "gridmesh-agent
cleanup" removes it. Envoy is started beside it, with the configuration that
"gridmesh-agent bootstrap" prints.

Exit codes: 0 stopped, 1 failure, 2 wrong flags or commands, 3 the node is not fit
(kube-proxy's rules, a --service-cidr over its own network, NetworkPolicies where
they are to be refused) or another agent is alive on it, beside which cleanup ends
so, too. "gridmesh-agent status --check" has its own.`,
		Example: `  gridmesh-agent --kubeconfig /etc/gridmesh/kubeconfig --node-name edge-7
  gridmesh-agent --manifests ./state --node-name edge-7 --pod-cidr 10.244.7.0/24`,
		Args:    cobra.NoArgs,
		Version: obs.Version(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), c, obs.NewLog(os.Stderr, c.verbose))
		},
	}
	c.bind(root.PersistentFlags())
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return c.readFile(root.PersistentFlags()) }
	for flag, values := range choices {
		complete(root, flag, values)
	}
	bootstrap := &cobra.Command{
		Use: "bootstrap", Short: "Print the bootstrap of this node's Envoy", Args: cobra.NoArgs,
		Example: "  gridmesh-agent bootstrap --node-name edge-7 >envoy.yaml\n  gridmesh-agent bootstrap --node-name edge-7 --envoy-heap-limit 512 --output envoy.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.output == "" && cmd.Flags().Changed("output") {
				return fmt.Errorf("%w: --output is empty; give a file, or leave it out for standard output", run.ErrUsage)
			}
			return printBootstrap(cmd.OutOrStdout(), c)
		},
	}
	bootstrap.Flags().StringVar(&c.output, "output", "", "file to write to, or - for standard output, as without it")
	run.Files(bootstrap.Flags(), "output")
	clean := &cobra.Command{
		Use: "cleanup", Short: "Remove every rule, route and changed sysctl of gridmesh from this node", Args: cobra.NoArgs,
		Example: "  gridmesh-agent cleanup\n  gridmesh-agent cleanup --files",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cleanUp(cmd.Context(), cmd.OutOrStdout(), c) },
	}
	clean.Flags().BoolVar(&c.files, "files", false, "remove its sockets, the bootstrap and the last good state, too")
	clean.Flags().BoolVar(&c.stay, "stay", false, "change nothing and wait until stopped: for a pod whose init containers have cleaned up, so that it is ready where the node is clean")
	clean.Flags().StringVar(&c.handOver, "hand-over", "", "kube-proxy: wait until it serves on this node before anything is removed, so that Services are reached all the time")
	complete(clean, "hand-over", []string{kubeProxy})
	root.AddCommand(bootstrap, statusCommand(c), clean)
	for _, cmd := range append(root.Commands(), root) {
		do := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.place(do(cmd, args), root.PersistentFlags()) }
	}
	return root
}

// statusCommand asks the agent that runs.
func statusCommand(c *config) *cobra.Command {
	status := &cobra.Command{
		Use: "status", Short: "Show what the running agent serves, and what is wrong", Args: cobra.NoArgs,
		Long: `Show what the running agent serves, and what is wrong.

With --check, for monitoring and scripts, a line on standard output and the exit
code say it: 0 all is well, 1 the node is degraded, 2 the agent cannot be asked.`,
		Example: "  gridmesh-agent status -o json | jq -r .source\n  gridmesh-agent status --check",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.check {
				return check(cmd, c)
			}
			return printStatus(cmd.Context(), cmd.OutOrStdout(), c)
		},
	}
	status.Flags().BoolVar(&c.check, "check", false, "say in a line, and by the exit code, whether all is well")
	status.Flags().StringVarP(&c.format, "output", "o", c.format, "table, json or yaml; the fields are in docs/agent.md")
	complete(status, "output", formats)
	return status
}

// complete has a shell complete the values of a flag.
func complete(cmd *cobra.Command, flag string, values []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}
