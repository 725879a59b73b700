package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/events"
	leading "github.com/gridmesh/gridmesh/kube/lead"
	"github.com/gridmesh/gridmesh/kube/objects"
)

// control works until ctx ends or the lease is lost.
func control(ctx context.Context, c *config, log *slog.Logger) error {
	kube.LogTo(log)
	client, err := kube.Connect(c.kubeconfig, plan.Manager+"/"+obs.Version(), c.rate)
	if err != nil {
		return err
	}
	registry := run.NewRegistry()
	metrics := grid.NewMetrics(registry)
	var g run.Group
	defer g.Close()
	if err := listen(&g, c, registry); err != nil {
		return err
	}
	g.Add("controller", func(ctx context.Context) error {
		work := func(ctx context.Context) error { return lead(ctx, c, client, log, metrics) }
		if c.leaderElect {
			return leading.Run(ctx, client, c.election, work)
		}
		return work(ctx)
	})
	return g.Run(ctx)
}

// listen opens what others ask for health and metrics.
func listen(g *run.Group, c *config, registry *prometheus.Registry) error {
	var checks run.Checks // it is as well as it answers
	if err := g.AddHTTP("health", c.healthz, checks.Handler()); err != nil {
		return err
	}
	return g.AddHTTP("metrics", c.metrics, run.MetricsMux(registry))
}

// lead does the work of the one replica that acts.
func lead(ctx context.Context, c *config, client *kube.Client, log *slog.Logger, metrics *grid.Metrics) error {
	manifests, err := apiv1.CRDs()
	if err != nil {
		return err
	}
	crds := &leading.CRDs{Client: client, Manifests: manifests, Manager: plan.Manager, Same: plan.Same, Log: log}
	if c.installCRDs {
		if err := crds.Install(ctx); err != nil {
			return err
		}
	}
	mirror := objects.NewMirror(client, grid.Kinds(), plan.Prune)
	events := events.ForObjects(client, plan.Manager, log)
	controller := grid.New(mirror, mirror, grid.Config{Guard: c.guard, Parallel: c.parallel, Log: log, Metrics: metrics, Events: events})
	var g run.Group
	ready := make(chan struct{})
	g.Add("events", events.Run)
	g.Add("mirror", func(ctx context.Context) error { return mirror.Run(ctx, func() { close(ready) }) })
	g.Add("grids", func(ctx context.Context) error {
		select {
		case <-ready:
			log.Info("leading")
			return controller.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	if c.installCRDs {
		g.Add("CRDs", crds.Keep)
	}
	return g.Run(ctx)
}
