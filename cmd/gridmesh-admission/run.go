package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/admission"
	"github.com/gridmesh/gridmesh/admission/certs"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	leading "github.com/gridmesh/gridmesh/kube/lead"
	"github.com/gridmesh/gridmesh/kube/objects"
)

// How replicas agree on one that makes the certificate.
const (
	leaseFor   = 15 * time.Second
	renewFor   = 10 * time.Second
	leaseRetry = 2 * time.Second
)

// replica is one of the webhook's processes. All answer, one makes the certificate.
type replica struct {
	*config
	client  *kube.Client
	log     *slog.Logger
	metrics *admission.Metrics
	checks  run.Checks
	group   run.Group
}

// admit answers API servers until ctx ends.
func admit(ctx context.Context, c *config, log *slog.Logger) error {
	kube.LogTo(log)
	client, err := kube.Connect(c.kubeconfig, names.Admission+"/"+obs.Version(), kube.NodeRate())
	if err != nil {
		return err
	}
	registry := run.NewRegistry()
	r := &replica{config: c, client: client, log: log, metrics: admission.NewMetrics(registry)}
	defer r.group.Close()
	if err := r.assemble(registry); err != nil {
		return err
	}
	return r.group.Run(ctx)
}

// assemble opens the listeners and adds all that runs.
func (r *replica) assemble(registry *prometheus.Registry) error {
	shown, err := r.certificate()
	if err != nil {
		return err
	}
	mirror := objects.NewMirror(r.client, []objects.Kind{admission.ShieldKind(r.namespace)}, admission.Prune)
	shield := admission.NewShield(mirror, r.namespace, r.log, r.metrics)
	r.checks.Ready("shield", shield.Err)
	listed := make(chan struct{})
	r.group.Add("shield watch", func(ctx context.Context) error { return mirror.Run(ctx, func() { close(listed) }) })
	r.group.Add("shield", func(ctx context.Context) error { return shield.Run(ctx, listed) })
	l, err := admission.Listen(r.webhook, r.log)
	if err != nil {
		return fmt.Errorf("--webhook-bind-address: %w", err)
	}
	r.group.AddListener("webhook", l, admission.Serve(shown, admission.NewHandler(shield.Until, r.metrics, r.log), r.log))
	if err := r.group.AddHTTP("health", r.healthz, r.checks.Handler(), r.log); err != nil {
		return err
	}
	if err := r.group.AddHTTP("metrics", r.config.metrics, run.MetricsMux(registry), r.log); err != nil {
		return err
	}
	return r.listenSecurely(shown, registry)
}

// listenSecurely opens what Prometheus asks, with the certificate of the webhook.
func (r *replica) listenSecurely(shown *tls.Config, registry *prometheus.Registry) error {
	if r.secure == "" {
		return nil
	}
	l, err := run.ListenTCP(r.secure, r.log)
	if err != nil {
		return fmt.Errorf("--secure-metrics-bind-address: %w", err)
	}
	r.group.AddListener("secure metrics", l, run.ServeHTTPS(shown, kube.NewDelegatingAuth(r.client, run.MetricsMux(registry))))
	return nil
}

// follow adds a mirror and who reads it; he begins once all is there.
func (r *replica) follow(name string, mirror *objects.Mirror, reads func(ctx context.Context) error) {
	r.group.Add(name, func(ctx context.Context) error { return following(ctx, mirror, reads) })
}

func following(ctx context.Context, mirror *objects.Mirror, reads func(ctx context.Context) error) error {
	var g run.Group
	ready := make(chan struct{})
	g.Add("watch", func(ctx context.Context) error { return mirror.Run(ctx, func() { close(ready) }) })
	g.Add("reader", func(ctx context.Context) error {
		select {
		case <-ready:
			return reads(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return g.Run(ctx)
}

// certificate adds what follows the certificate that is shown, of files or of the
// Secret, and in the latter case what makes it.
func (r *replica) certificate() (*tls.Config, error) {
	if r.tls.Cert != "" {
		c, err := run.LoadCertificate(r.tls, r.log)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file: %w", err)
		}
		r.checks.Ready("certificate", c.Err)
		r.group.Add("certificate", c.Run)
		r.metrics.OfCertificate(c.Expires)
		return c.TLS(), nil
	}
	mirror := objects.NewMirror(r.client, []objects.Kind{admission.CertsKind(r.namespace)}, admission.PruneCerts)
	shown := admission.NewServing(mirror, r.namespace, r.log)
	r.checks.Ready("certificate", shown.Err)
	r.follow("certificate", mirror, shown.Run)
	r.metrics.OfCertificate(shown.Expires)
	if r.leaderElect {
		r.group.Add("issuer", r.elect)
	} else {
		r.group.Add("issuer", r.issue)
	}
	return shown.TLS(), nil
}

// elect makes the certificate while this replica leads. One that leads no more goes on
// answering, and stands again.
func (r *replica) elect(ctx context.Context) error {
	for ctx.Err() == nil {
		err := leading.Run(ctx, r.client, leading.Election{
			Namespace: r.namespace, Name: names.Admission, Identity: r.identity, Lease: leaseFor, Renew: renewFor, RetryWait: leaseRetry,
		}, r.issue)
		if run.Pause(ctx, leaseRetry) {
			r.log.Warn("another replica may make the certificate; standing again", obs.KeyErr, err)
		}
	}
	return nil
}

// issue makes the certificate until ctx ends.
func (r *replica) issue(ctx context.Context) error {
	mirror := objects.NewMirror(r.client, admission.IssuerKinds(r.namespace), admission.Prune)
	return following(ctx, mirror, admission.NewIssuer(mirror, r.namespace, certs.PolicyOf(r.hosts, r.lifetime), r.metrics, r.log).Run)
}
