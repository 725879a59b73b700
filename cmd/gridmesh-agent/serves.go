package main

import (
	"context"
	"errors"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/xds/admin"
)

var errNotListening = errors.New("nobody listens on the ports of --listen-port-base, where captured connections go")

// envoyServes asks whether Envoy has its listeners, and answers.
func (c *config) envoyServes(ctx context.Context) error {
	ports := c.capture.Ports
	there, err := capture.Listening(ports.Keep(), ports.Plain())
	if err == nil && !there {
		return errNotListening
	}
	return node.Asked(admin.Ready(ctx, ports.Health())) // which tells, too, where sockets cannot be listed
}
