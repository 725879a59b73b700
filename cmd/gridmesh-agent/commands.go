package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/cleanup"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/xds"
)

func printBootstrap(w io.Writer, c *config) error {
	if err := c.complete(); err != nil {
		return err
	}
	out, err := xds.Bootstrap{
		Node: c.node.Node, Socket: c.node.XDSSocket, AdminSocket: c.adminSocket,
		HeapBytes: c.envoyHeapMiB << 20, Mark: c.capture.Own(), HealthPort: c.capture.Ports.Health(),
	}.YAML()
	if err != nil {
		return err
	}
	if c.output != "" && c.output != toStdout {
		return writeOut(c.output, out)
	}
	_, err = w.Write(out)
	return err
}

// How a status is printed: as gridmesh prints, too.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatJSON, formatYAML}

func printStatus(ctx context.Context, w io.Writer, c *config) error {
	r, err := askStatus(ctx, c)
	if err != nil {
		return err
	}
	return writeStatus(w, r, c.format)
}

func askStatus(ctx context.Context, c *config) (*report.Report, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	if !slices.Contains(formats, c.format) {
		return nil, fmt.Errorf("%w: -o %q is not known; use table, json or yaml", run.ErrUsage, c.format)
	}
	r, err := report.Ask(ctx, c.node.StatusSocket)
	return r, unanswered(c, err)
}

// unanswered says why an agent does not tell its status, and the next step, as
// gridmesh says it of its feed.
func unanswered(c *config, err error) error {
	ended := "If it ended, its log says why"
	_, none := atomicfile.Within(time.Second, func() (fs.FileInfo, error) { return os.Stat(filepath.Join(c.node.StateDir, source.StateFile)) }, nil)
	switch {
	case !errors.Is(none, fs.ErrNotExist): // it is there, or one may not know
		ended += fmt.Sprintf("; gridmesh view --state-dir %s has what it kept", c.node.StateDir)
	case errors.Is(err, fs.ErrNotExist):
		ended = fmt.Sprintf("None has kept a state in %s (--state-dir): start it, as docs/install.md says, or give the --status-socket of one that runs", c.node.StateDir)
	}
	return run.Asked{Word: "agent", Program: "gridmesh-agent", Ended: ended}.Unanswered(c.node.StatusSocket, err)
}

// What check says of a node that is not well.
var (
	errDegraded = errors.New("degraded")
	errNotAsked = errors.New("unknown")
)

// check reports whether all is well. A line of monitoring is one of standard output,
// whatever it says; what programs read stays as it is there.
func check(cmd *cobra.Command, c *config) error {
	w := cmd.OutOrStdout()
	if c.format != formatJSON && c.format != formatYAML {
		cmd.Root().SetErr(w)
	}
	r, err := askStatus(cmd.Context(), c)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAsked, err)
	}
	if c.format != formatTable {
		if err := writeStatus(w, r, c.format); err != nil {
			return err
		}
	}
	if why := r.Degraded(time.Now()); len(why) > 0 {
		return fmt.Errorf("%w: %s", errDegraded, strings.Join(why, "; "))
	}
	if c.format == formatTable {
		_, err = fmt.Fprintln(w, "gridmesh-agent: ok:", r.Summary())
	}
	return err
}

func writeStatus(w io.Writer, r *report.Report, format string) error {
	switch format {
	case formatJSON:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	case formatYAML:
		out, err := yaml.Marshal(r)
		if err != nil {
			return fmt.Errorf("print the status: %w", err)
		}
		_, err = w.Write(out)
		return err
	default:
		return r.WriteText(w, time.Now())
	}
}

// cleanUp takes gridmesh's traces away, and says so.
func cleanUp(ctx context.Context, w io.Writer, c *config) error {
	if err := c.complete(); err != nil {
		return err
	}
	if c.stay {
		<-ctx.Done()
		return nil
	}
	if err := errors.Join(hasSysctls(c.procSys), mayAdminister()); err != nil {
		return err
	}
	served := false
	if c.handOver != "" {
		var err error
		if served, err = awaitKubeProxy(ctx, w, c.host()); err != nil {
			return err
		}
	}
	done, err := cleanup.Run(ctx, c.cleanup())
	if err != nil {
		return err
	}
	done.HandedOver = served
	fmt.Fprint(w, done.Text())
	return nil
}
