package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/health/cloud"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/events"
	leading "github.com/gridmesh/gridmesh/kube/lead"
	"github.com/gridmesh/gridmesh/kube/objects"
)

const (
	// installAgain is how long it is waited before kinds that were refused are installed again.
	installAgain = 30 * time.Second
	// installTry is how long one attempt may take: what is served as it was, does its work
	// though its update fails for ever.
	installTry = 30 * time.Second
)

// replica is one of the controller's processes, of which one leads.
type replica struct {
	*config
	client  *kube.Client
	log     *slog.Logger
	metrics *grid.Metrics
	shields *cloud.Metrics
	doubts  grid.Doubts
	unheard grid.Doubts   // why node health does not know how nodes are
	try     time.Duration // how long an attempt to install kinds may take; 0: installTry
}

// control works until ctx ends or the lease is lost.
func control(ctx context.Context, c *config, log *slog.Logger) error {
	kube.LogTo(log)
	client, err := kube.Connect(c.kubeconfig, plan.Manager+"/"+obs.Version(), c.rate)
	if err != nil {
		return err
	}
	registry := run.NewRegistry()
	r := &replica{config: c, client: client, log: log, metrics: grid.NewMetrics(registry), shields: cloud.NewMetrics(registry)}
	r.doubts.Blame, r.doubts.Reach = client.Blame, client.Ask
	var g run.Group
	defer g.Close()
	if err := r.listen(&g, registry); err != nil {
		return err
	}
	g.AddTask("doubts", func(ctx context.Context) error { return r.doubts.Tell(ctx, log) })
	g.Add("controller", func(ctx context.Context) error { return r.act(ctx, c.leaderElect) })
	return g.Run(ctx)
}

// act does the work, with an election where another replica may do it.
func (r *replica) act(ctx context.Context, elect bool) error {
	if !elect {
		return r.lead(ctx)
	}
	r.doubts.Set("lease", grid.ErrNotKnown) // until the first answer: a dial into nowhere fails late
	r.election.Fault = func(err error) { r.doubts.Set("lease", err) }
	return leading.Run(ctx, r.client, r.election, r.lead)
}

// listen opens what others ask for health and metrics.
func (r *replica) listen(g *run.Group, registry *prometheus.Registry) error {
	var checks run.Checks
	checks.Ready("work", r.doubts.Now)
	checks.Ready("node health", r.unheard.Now)
	if err := g.AddHTTP("health", r.healthz, checks.Handler(), r.log); err != nil {
		return err
	}
	if err := g.AddHTTP("metrics", r.config.metrics, run.MetricsMux(registry), r.log); err != nil {
		return err
	}
	return r.listenSecurely(g, &checks, kube.NewDelegatingAuth(r.client, run.MetricsMux(registry)))
}

// listenSecurely opens what others in the cluster ask for, over TLS.
func (r *replica) listenSecurely(g *run.Group, checks *run.Checks, h http.Handler) error {
	if r.secure == "" {
		return nil
	}
	var cfg *tls.Config
	var err error
	if r.tls.Cert == "" {
		cfg, err = kube.SelfSigned(plan.Manager)
	} else {
		var c *run.Certificate
		if c, err = run.LoadCertificate(r.tls, r.log); err == nil {
			cfg = c.TLS()
			checks.Ready("certificate", c.Err)
			g.AddTask("certificate", c.Run)
		}
	}
	if err != nil {
		return fmt.Errorf("--secure-metrics-bind-address: %w", err)
	}
	l, err := run.ListenTCP(r.secure, r.log)
	if err != nil {
		return fmt.Errorf("--secure-metrics-bind-address: %w", err)
	}
	g.AddListener("secure metrics", l, run.ServeHTTPS(cfg, h))
	return nil
}

// lead does the work of the one replica that acts. Node health waits for nothing of the grids':
// while their CRDs are not served nodes are lost as well.
func (r *replica) lead(ctx context.Context) error {
	defer r.doubts.Clear()
	defer r.unheard.Clear()
	var g run.Group
	if err := r.keepHealth(&g); err != nil {
		return err
	}
	g.Add("grids", r.leadGrids)
	return g.Run(ctx)
}

// leadGrids keeps the kinds of grids, and carries grids out once it was tried to install them.
func (r *replica) leadGrids(ctx context.Context) error {
	manifests, err := apiv1.CRDs()
	if err != nil {
		return err
	}
	tried := make(chan struct{})
	var g run.Group
	g.Add("CRDs", func(ctx context.Context) error { return r.keepKinds(ctx, manifests, "CRDs", tried) })
	g.Add("grids", func(ctx context.Context) error {
		select {
		case <-tried:
			return r.carryOut(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return g.Run(ctx)
}

// carryOut carries out grids.
func (r *replica) carryOut(ctx context.Context) error {
	mirror := objects.NewMirror(r.client, grid.Kinds(), plan.Prune)
	r.doubts.Set("mirror", grid.ErrNotKnown)
	r.doubts.Ask(mirror.Fault)
	events := events.ForObjects(r.client, plan.Manager, r.log)
	controller := grid.New(mirror, mirror, grid.Config{Guard: r.guard, Parallel: r.parallel, Log: r.log, Metrics: r.metrics, Events: events})
	var g run.Group
	r.tellOfKeys(&g)
	ready := make(chan struct{})
	g.Add("events", events.Run)
	g.Add("mirror", func(ctx context.Context) error { return mirror.Run(ctx, func() { close(ready) }) })
	g.Add("grids", func(ctx context.Context) error {
		select {
		case <-ready:
			r.doubts.Set("mirror", nil)
			r.log.Info("leading")
			defer r.metrics.Lead()()
			return controller.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return g.Run(ctx)
}

// keepKinds installs kinds, however often it has to be tried, and keeps them until ctx ends. It
// closes tried after the first attempt, also where that fails: they may be served as they were, or
// somebody else brings them, or the right to. Such a fault is a doubt and a line in the log: what
// else the process does goes on.
func (r *replica) keepKinds(ctx context.Context, manifests [][]byte, about string, tried chan<- struct{}) error {
	if !r.installCRDs {
		close(tried)
		<-ctx.Done()
		return nil
	}
	crds := &leading.CRDs{Client: r.client, Manifests: manifests, Manager: plan.Manager, Same: plan.Same, Log: r.log, Found: func(err error) { r.doubts.Set(about, err) }}
	first := sync.OnceFunc(func() { close(tried) })
	r.doubts.Set(about, grid.ErrNotServed)
	for {
		attempt, cancel := context.WithTimeout(ctx, cmp.Or(r.try, installTry))
		err := crds.Install(attempt)
		cancel()
		first()
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		if r.doubts.Set(about, err); err == nil {
			return crds.Keep(ctx)
		}
		r.log.Error("could not install kinds; trying again", obs.KeyWhich, about, obs.KeyErr, err)
		run.Pause(ctx, installAgain)
	}
}

// tellOfKeys adds what tells the owners of Services of mistakes in their topology
// keys. Its Events have a queue of their own: they take no place of those about
// grids.
func (r *replica) tellOfKeys(g *run.Group) {
	services := objects.NewMirror(r.client, grid.ServiceKinds(), grid.PruneService)
	told := events.ForObjects(r.client, plan.Manager, r.log)
	keys := grid.NewKeys(services, told, r.log)
	g.Add("events of Services", told.Run)
	g.Add("Services", func(ctx context.Context) error { return services.Run(ctx, func() {}) })
	g.Add("topology keys", keys.Run)
}
