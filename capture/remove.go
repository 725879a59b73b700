package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/routing"
)

// Remove removes every rule, route and changed sysctl of gridmesh, and leaves
// a capture that is not installed. What is not there is no error. Early demux stays off, with
// an error, where Envoy's sockets in pods' names are not gone within a moment.
func (c *Capture) Remove() error { return c.remove(context.Background(), 5*time.Second) }

func (c *Capture) remove(ctx context.Context, patience time.Duration) error {
	c.installed, c.held, c.goal, c.pending = false, unsure, unsure, nil
	names := c.clientsNames()
	c.table.conn.Keep()
	unhooked, hands := unhookKernel(c.table.conn), c.table.remove()
	err := errors.Join(unhooked, hands, removeBridge(c.table.conn), c.removeKernel())
	c.table.conn.Close()
	restored := errors.Join(err, routing.Remove(c.cfg), c.ctl.Restore(EarlyDemux))
	if hands != nil || !c.ctl.Holds(EarlyDemux) { // under rules that stay Envoy goes on
		return restored
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch why := forgetClients(ctx, names); {
	case errors.Is(why, errUnseen): // it stays off, and its record says so
		return restored
	case why != nil:
		return errors.Join(restored, fmt.Errorf("sysctl %s stays 0, and pods are served without it: %w", EarlyDemux, why))
	}
	return errors.Join(restored, c.ctl.Undo(EarlyDemux))
}

// Cleanup is Remove, for whoever runs no capture, while no agent does. It waits for what the
// kernel remembers of Envoy's sockets in pods' names, a minute at most, and as long as ctx.
func Cleanup(ctx context.Context, cfg plan.Config, host Host) error {
	unlock, err := Lock()
	if err != nil {
		return err
	}
	defer unlock()
	return (&Capture{cfg: cfg, host: host, ctl: host.sysctls(), table: newTable(cfg)}).remove(ctx, timeWait)
}
