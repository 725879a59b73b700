package main

import (
	"context"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/xds/admin"
)

// envoyServes asks whether Envoy has its listeners, and answers. Anybody on the node may
// listen there and answer in its place, so who listens has to be Envoy before and after.
func (c *config) envoyServes(ctx context.Context) error {
	ports := c.capture.Ports
	before, unseen := capture.Listening(ports)
	if unseen == nil {
		if err := before.Serving(); err != nil {
			return err
		}
	}
	err := node.Asked(admin.Ready(ctx, ports.Health())) // which tells, too, where sockets cannot be listed
	if err != nil || unseen != nil {
		return err
	}
	after, unseen := capture.Listening(ports)
	if unseen != nil {
		return nil //nolint:nilerr // as before
	}
	return after.ServingStill(before)
}
