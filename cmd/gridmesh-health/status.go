package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/health"
	"github.com/gridmesh/gridmesh/health/report"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

const (
	defaultSocket = "/run/gridmesh-health/status.sock"
	// socketMode: what a node knows of its unit is its owner's business.
	socketMode = 0o600
)

// serveStatus adds the status socket to what the daemon runs. Without it the node votes all
// the same.
func serveStatus(g *run.Group, socket string, d *health.Daemon, log *slog.Logger) {
	if socket == "" {
		return
	}
	l, err := run.ListenUnixMode(socket, socketMode, log)
	if err != nil {
		log.Warn("the status socket is not there; the node votes without", obs.KeyFlag, "--status-socket", obs.KeyErr, err)
		return
	}
	g.AddListener("status", l, run.ServeHTTP(d.StatusHandler()))
}

var formats = []string{"table", "json", "yaml"}

// statusCommand asks the daemon that runs.
func statusCommand(socket *string) *cobra.Command {
	format := formats[0]
	cmd := &cobra.Command{
		Use: "status", Short: "Show what the running daemon knows of its unit: who sees whom, who leads, what it heard", Args: cobra.NoArgs,
		Long: `Show what the running daemon knows of its unit: who sees whom, who leads, what it heard.

A daemon knows its own checks and those that other nodes report to it: the one
that leads, which each of them names, knows nearly all. "gridmesh health -f" reads
what -o json prints, of several nodes and beside Nodes and Leases.

Exit codes: 0 it answered, 1 it did not, 2 wrong flags or commands.`,
		Example: "  gridmesh-health status\n  gridmesh-health status -o json >edge-7.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(formats, format) {
				return fmt.Errorf("%w: -o %q is not known; use table, json or yaml", run.ErrUsage, format)
			}
			if *socket == "" {
				return fmt.Errorf("%w: --status-socket is empty; give that of the daemon, as %s", run.ErrUsage, defaultSocket)
			}
			s, err := askStatus(cmd.Context(), *socket)
			if err != nil {
				return err
			}
			return writeStatus(cmd.OutOrStdout(), s, format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", format, "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// askStatus asks a daemon, or says why it does not answer.
func askStatus(ctx context.Context, socket string) (*report.NodeStatus, error) {
	s := &report.NodeStatus{}
	err := run.AskUnix(ctx, socket, "/status", s)
	return s, run.Asked{Word: "daemon", Program: "gridmesh-health", Ended: "Its log says why not"}.Unanswered(socket, err)
}

func writeStatus(w io.Writer, s *report.NodeStatus, format string) error {
	var text []byte
	var err error
	switch format {
	case "json":
		text, err = json.MarshalIndent(s, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(s)
	default:
		return s.WriteText(w)
	}
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	return nil
}
