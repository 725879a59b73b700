package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/admin"
)

// serve makes the agent of its parts and runs it until ctx ends.
func serve(ctx context.Context, c *config, log *slog.Logger) error {
	if c.kubeconfig != "" && c.manifests != "" {
		return fmt.Errorf("%w: --kubeconfig and --manifests exclude each other", run.ErrUsage)
	}
	if err := c.complete(); err != nil {
		return err
	}
	if err := errors.Join(hasSysctls(c.procSys), mayAdminister()); err != nil {
		return err
	}
	host := c.host()
	host.Log = log
	kernel, err := capture.New(c.capture, host)
	if err != nil {
		return err
	}
	parts := node.Parts{
		Log: log, Registry: run.NewRegistry(), Capture: kernel,
		LockNetwork: node.LockNetwork, Inspect: kernel.Inspector(), Networks: capture.Networks, WatchLinks: capture.Watch,
		Envoy:     admin.New(c.adminSocket),
		Supervise: func(ctx context.Context, alive func() bool) error { return run.Supervised(ctx, log, alive) },
	}
	if c.capture.Kernel != nil {
		parts.EnvoyServes = c.envoyServes
	}
	if c.node.TakeOver {
		parts.KubeProxy = otherProxy{}
	}
	var server *xds.Server
	parts.XDS = func(requested func([]string), refused func(xds.Nack)) node.XDS {
		server = xds.New(xds.Config{Log: log, Metrics: xds.NewMetrics(parts.Registry), Asked: requested, Refused: refused})
		return server
	}
	clients := capture.NewClients(kernel, func() (share, all int) {
		share, all = server.ClientShare()
		return cmp.Or(c.clientConnections, share), all
	}, log)
	if err := clients.Register(parts.Registry); err != nil {
		return err
	}
	parts.Clients = clients.Run
	if err := c.takeFrom(&parts, log, kernel.Earlier); err != nil {
		return err
	}
	agent, err := node.New(c.node, parts)
	if err != nil {
		return err
	}
	return agent.Run(ctx)
}

// otherProxy is kube-proxy in the network of this process.
type otherProxy struct{}

func (otherProxy) Look() (kubeproxy.Rules, error)  { return kubeproxy.Look() }
func (otherProxy) Alive() (kubeproxy.Signs, error) { return kubeproxy.Alive() }
func (otherProxy) Remove() error                   { return kubeproxy.Remove() }
