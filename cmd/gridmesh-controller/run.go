package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
)

// control works until ctx ends or the lease is lost.
func control(ctx context.Context, c *config, log *slog.Logger) error {
	kube.LogTo(log)
	client, err := kube.Connect(c.kubeconfig, plan.Manager+"/"+obs.Version(), c.rate)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := grid.NewMetrics(registry)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	start := func(what string, f func() error) {
		wg.Go(func() {
			err := f()
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
			cancel(err) // one that ends, ends all
		})
	}
	for _, s := range services(c, registry) {
		start("http", func() error {
			l, err := run.ListenTCP(s.address)
			if err != nil {
				return err
			}
			return run.ServeHTTP(s.handler)(ctx, l)
		})
	}
	start("controller", func() error {
		work := func(ctx context.Context) error { return lead(ctx, c, client, log, metrics) }
		if c.leaderElect {
			return client.Lead(ctx, c.election, work)
		}
		return work(ctx)
	})
	<-ctx.Done()
	wg.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// lead does the work of the one replica that acts.
func lead(ctx context.Context, c *config, client *kube.Client, log *slog.Logger, metrics *grid.Metrics) error {
	if c.installCRDs {
		if err := installCRDs(ctx, client); err != nil {
			return err
		}
	}
	mirror := kube.NewMirror(client, kube.GridKinds(), plan.Prune)
	events := kube.NewRecorder(ctx, client, plan.Manager)
	defer events.Close()
	controller := grid.New(mirror, mirror, grid.Config{Guard: c.guard, Parallel: c.parallel, Log: log, Metrics: metrics, Events: events})
	ready := make(chan struct{})
	var wg sync.WaitGroup
	var mirrored error
	if c.installCRDs {
		wg.Go(func() { keepCRDs(ctx, client, log) })
	}
	wg.Go(func() { mirrored = mirror.Run(ctx, func() { close(ready) }) })
	select {
	case <-ready:
		log.Info("leading")
		_ = controller.Run(ctx)
	case <-ctx.Done():
	}
	wg.Wait()
	return mirrored
}

func installCRDs(ctx context.Context, client *kube.Client) error {
	crds, err := apiv1.CRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := client.InstallCRD(ctx, crd, plan.Manager, plan.Same); err != nil {
			return err
		}
	}
	return nil
}

// crdEvery is how often the CRDs are looked at; nothing is written where they
// are as they are to be.
const crdEvery = 30 * time.Second

// keepCRDs brings back what others change of the CRDs, until ctx ends.
func keepCRDs(ctx context.Context, client *kube.Client, log *slog.Logger) {
	tick := time.NewTicker(crdEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := installCRDs(ctx, client); err != nil && ctx.Err() == nil {
			log.Error("could not keep the CRDs", "err", err)
		}
	}
}

// service is what is served at an address.
type service struct {
	address string
	handler http.Handler
}

func services(c *config, registry *prometheus.Registry) []service {
	var list []service
	add := func(address, path string, h http.Handler) {
		if address == "" {
			return
		}
		mux := http.NewServeMux()
		mux.Handle("GET "+path, h)
		list = append(list, service{address, mux})
	}
	add(c.healthz, "/healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	}))
	add(c.metrics, "/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return list
}
