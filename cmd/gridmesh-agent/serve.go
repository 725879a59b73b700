package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/events"
	"github.com/gridmesh/gridmesh/kube/feed"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/source"
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
	if c.manifests != "" {
		if err := readable(c.manifests); err != nil {
			return err
		}
		dir := source.NewDir(c.manifests)
		parts.Source, parts.PodCIDRs = dir, dir.PodCIDRs
	} else {
		if parts.Source, parts.Cluster, err = connect(c, log, parts.Registry); err != nil {
			return err
		}
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

// connect prepares what comes from the API server; nothing is asked of it yet.
func connect(c *config, log *slog.Logger, registry prometheus.Registerer) (node.Source, node.Cluster, error) {
	kube.LogTo(log)
	client, err := kube.ConnectBy(capture.OwnSockets(c.capture), c.kubeconfig, "gridmesh-agent/"+obs.Version(), kube.NodeRate())
	if err != nil {
		return nil, nil, err
	}
	if err := realAddress(client, c.capture.ServiceCIDRs); err != nil {
		return nil, nil, err
	}
	snapshots := feed.New(client, log, feed.NewMetrics(registry))
	return snapshots, cluster{client, events.ForNode(client, c.node.Node, log), snapshots}, nil
}

// realAddress refuses an API server within the ranges of ClusterIPs.
func realAddress(client *kube.Client, ranges []netip.Prefix) error {
	ip, known := client.HostIP()
	in := slices.IndexFunc(ranges, func(p netip.Prefix) bool { return known && p.Contains(ip) })
	if in < 0 {
		return nil
	}
	return fmt.Errorf("%w: the API server's address %s is in --service-cidr %s; either it is a ClusterIP, which needs this agent to work: give its real address in the kubeconfig, or in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT; or that range is not the cluster's", run.ErrUsage, ip, ranges[in])
}

// cluster is the API server as the agent asks it.
type cluster struct {
	*kube.Client
	*events.Node
	feed *feed.Feed
}

// Unheard implements node.Cluster.
func (c cluster) Unheard(since time.Time) []string { return c.feed.Unheard(since) }

// Silent implements node.Cluster.
func (c cluster) Silent() []string { return c.feed.Silent() }

// APIServer implements node.Cluster.
func (c cluster) APIServer() report.APIServer {
	h := c.feed.Health()
	return report.APIServer{LastContact: h.LastContact, Error: h.Err, Since: h.Since, Refused: h.Refused, Held: h.Held}
}
