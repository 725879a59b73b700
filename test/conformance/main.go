// Command conformance runs Kubernetes' own specs of sig-network on nodes with
// the real kubelet and containerd, with kube-proxy and with gridmesh, and shows
// side by side what they come to: see docs/conformance.md.
//
//	main.go    the command line
//	check.go   what this machine needs for it
//	run.go     one proxy: which specs, and what they come to
//	cluster.go the nodes that the specs run on
//	policies.go what specs of NetworkPolicies run beside: the engine, its list, its columns
//	names.go   the DNS of nodes that have no gridmesh, and when names resolve
//	specs.go   Kubernetes' own test program: its list of specs, one spec's process
//	play.go    specs beside each other, and those that want to be alone
//	kept.go    what specs came to, kept as they end
//	report.go  both proxies side by side, against what is expected
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

func main() { os.Exit(run()) }

// errWorse is said when a spec came to something worse than is expected.
var errWorse = errors.New("specs came to something worse than is expected")

// interrupted is the exit code of a run that somebody ended: whoever called it
// for one proxy after the other stops there.
const interrupted = 130

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "conformance", Short: "Kubernetes' own network specs with kube-proxy and with gridmesh, side by side",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(checkCommand(), runCommand(), reportCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return exitCode(err)
	}
	return 0
}

func exitCode(err error) int {
	if errors.Is(err, context.Canceled) {
		return interrupted
	}
	return 1
}

// leftOut is the list of those that are not run.
func leftOut() string {
	return filepath.Join(edge.Root(), "test", "conformance", "left-out.txt")
}
