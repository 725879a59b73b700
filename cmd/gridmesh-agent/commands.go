package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
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

func printStatus(ctx context.Context, w io.Writer, c *config) error {
	if err := c.complete(); err != nil {
		return err
	}
	report, err := node.Status(ctx, c.node.StatusSocket)
	if err != nil {
		return err
	}
	return report.WriteText(w, time.Now())
}

func cleanup(ctx context.Context, w io.Writer, c *config) error {
	if err := c.complete(); err != nil {
		return err
	}
	if c.stay {
		<-ctx.Done()
		return nil
	}
	if err := cleanNode(c); err != nil {
		return err
	}
	fmt.Fprintln(w, "gridmesh's rules, routes and sysctls are gone from this node; Services are no longer served here")
	return nil
}

// cleanNode takes gridmesh's traces away, while no agent can start.
func cleanNode(c *config) error {
	unlock, err := node.Lock(c.node.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := capture.Cleanup(c.capture, c.host()); err != nil || !c.files {
		return err
	}
	return removeFiles(c)
}
