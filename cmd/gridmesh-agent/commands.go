package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
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
	if c.output != "" {
		return atomicfile.Write(c.output, out)
	}
	_, err = w.Write(out)
	return err
}

// How a status is printed.
const (
	formatText = "text"
	formatJSON = "json"
	formatYAML = "yaml"
)

func printStatus(ctx context.Context, w io.Writer, c *config) error {
	if err := c.complete(); err != nil {
		return err
	}
	switch c.format {
	case formatText, formatJSON, formatYAML:
	default:
		return fmt.Errorf("%w: --output %q is not known; use text, json or yaml", run.ErrUsage, c.format)
	}
	report, err := node.Status(ctx, c.node.StatusSocket)
	if err != nil {
		return err
	}
	return writeStatus(w, report, c.format)
}

func writeStatus(w io.Writer, report *node.Report, format string) error {
	switch format {
	case formatJSON:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(report)
	case formatYAML:
		out, err := yaml.Marshal(report)
		if err != nil {
			return fmt.Errorf("print the status: %w", err)
		}
		_, err = w.Write(out)
		return err
	default:
		return report.WriteText(w, time.Now())
	}
}

func cleanup(ctx context.Context, w io.Writer, c *config) error {
	if err := c.complete(); err != nil {
		return err
	}
	if c.stay {
		<-ctx.Done()
		return nil
	}
	if err := mayAdminister(); err != nil {
		return err
	}
	if err := cleanNode(c); err != nil {
		return err
	}
	fmt.Fprintln(w, "gridmesh's rules, routes and sysctls are gone from this node; Services are no longer served here")
	return nil
}

// cleanNode takes gridmesh's traces away, while no agent can start. A disk that
// takes no lock keeps none of them there: the network is locked, too.
func cleanNode(c *config) error {
	unlock, err := node.Lock(c.node.StateDir)
	switch {
	case errors.Is(err, node.ErrUnfit):
		return err
	case err == nil:
		defer unlock()
	}
	if err := capture.Cleanup(c.capture, c.host()); err != nil || !c.files {
		return err
	}
	return removeFiles(c)
}
