package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/health/cloud"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	leading "github.com/gridmesh/gridmesh/kube/lead"
)

// config is every choice that the flags offer.
type config struct {
	kubeconfig  string
	healthz     string
	metrics     string
	secure      string
	tls         run.CertificateFiles
	installCRDs bool
	leaderElect bool
	parallel    int
	rate        kube.Rate
	verbose     bool
	guard       plan.Guard
	election    leading.Election
	health      cloud.Config // UnitKey is empty where it is not kept
	policies    bool         // of that
}

func defaults() *config {
	host, _ := os.Hostname()
	return &config{
		health: cloud.Default(), policies: true,
		healthz: "0.0.0.0:10357", metrics: "127.0.0.1:10358", installCRDs: true, leaderElect: true, parallel: 16, rate: kube.Rate{QPS: 200, Burst: 400}, guard: plan.DefaultGuard(),
		election: leading.Election{
			Namespace: "gridmesh", Name: "gridmesh-controller", Identity: fmt.Sprintf("%s-%d", host, os.Getpid()),
			Lease: 15 * time.Second, Renew: 10 * time.Second, RetryWait: 2 * time.Second,
		},
	}
}

// ignored are flags of SuperEdge's application-grid-controller that mean
// nothing here. They are accepted, so that its manifests go on working.
var ignored = run.Ignored{
	"master": "the address is in --kubeconfig", "feature-gates": "there are none",
	"sync-period": "changes are followed at once", "worker": "see --parallel-writes", "leader-elect-resource-lock": "it is a Lease",
}

func (c *config) bind(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: in-cluster credentials)")
	f.StringVar(&c.healthz, "healthz-bind-address", c.healthz, "address of /healthz; empty for none")
	f.StringVar(&c.metrics, "metrics-bind-address", c.metrics, "address of /metrics; empty for none")
	f.StringVar(&c.secure, "secure-metrics-bind-address", c.secure, "address of /metrics over TLS, for tokens whose owner may get the nonResourceURL /metrics; empty for none")
	f.StringVar(&c.tls.Cert, "secure-metrics-cert-file", c.tls.Cert, "its certificate (PEM), which is followed; empty for one of its own")
	f.StringVar(&c.tls.Key, "secure-metrics-key-file", c.tls.Key, "the key of that")
	f.BoolVar(&c.installCRDs, "install-crds", c.installCRDs, "install the grids' CustomResourceDefinitions and keep them")
	f.IntVar(&c.parallel, "parallel-writes", c.parallel, "most writes to the API server at once, of one namespace a quarter of them; an object counts once for each 64 KiB, and those that are larger than a quarter go one at a time")
	f.Float32Var(&c.rate.QPS, "kube-qps", c.rate.QPS, "most requests a second to the API server")
	f.IntVar(&c.rate.Burst, "kube-burst", c.rate.Burst, "most requests at once beyond that")
	grid.BindGuard(f, &c.guard)
	f.StringVar(&c.health.UnitKey, "health-unit-key", "", "keep nodes that their units vote well, though the cloud does not hear them: the label of Nodes whose value is their unit, as gridmesh-health's --unit-key; empty to keep none")
	f.DurationVar(&c.health.Shield.Autonomy, "health-autonomy", c.health.Shield.Autonomy, "how long all pods of a unit without uplink are kept; from then on those alone that are bound to it; 0 for ever")
	f.BoolVar(&c.policies, "health-policies", c.policies, "install the admission policies of node health, where the API server has their kinds, and keep them; with --health-unit-key alone")
	f.BoolVar(&c.leaderElect, "leader-elect", c.leaderElect, "let one replica act, by a Lease")
	f.DurationVar(&c.election.Lease, "leader-elect-lease-duration", c.election.Lease, "how long a silent leader keeps the lease")
	f.DurationVar(&c.election.Renew, "leader-elect-renew-deadline", c.election.Renew, "how long a leader tries to renew it")
	f.DurationVar(&c.election.RetryWait, "leader-elect-retry-period", c.election.RetryWait, "how often the lease is tried")
	f.StringVar(&c.election.Namespace, "leader-elect-resource-namespace", c.election.Namespace, "namespace of the Lease and, with --health-unit-key, of the tables of node health")
	f.StringVar(&c.election.Name, "leader-elect-resource-name", c.election.Name, "name of the Lease")
	f.BoolVarP(&c.verbose, "verbose", "v", false, "log more")
	run.Files(f, "kubeconfig", "secure-metrics-cert-file", "secure-metrics-key-file")
	ignored.Bind(f)
	run.Klog.Bind(f)
}

func (c *config) complete(f *pflag.FlagSet, log *slog.Logger) error {
	var errs []error
	if err := c.guard.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.health.UnitKey != "" {
		if err := c.health.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("--health-unit-key, --health-autonomy: %w", err))
		}
		if c.election.Namespace == "" {
			errs = append(errs, errors.New("--leader-elect-resource-namespace is empty: with --health-unit-key the tables of node health and its Leases are there, too"))
		}
	}
	if c.rate.QPS <= 0 || c.rate.Burst < 1 {
		errs = append(errs, fmt.Errorf("--kube-qps %g, --kube-burst %d: must be positive", c.rate.QPS, c.rate.Burst))
	}
	errs = append(errs, run.CheckTCP("healthz-bind-address", c.healthz), run.CheckTCP("metrics-bind-address", c.metrics), run.CheckTCP("secure-metrics-bind-address", c.secure))
	if (c.tls.Cert == "") != (c.tls.Key == "") {
		errs = append(errs, errors.New("--secure-metrics-cert-file, --secure-metrics-key-file: give both, or neither"))
	}
	if c.parallel < 1 || c.parallel > 100 {
		errs = append(errs, fmt.Errorf("--parallel-writes %d: must be between 1 and 100", c.parallel))
	}
	if e := c.election; e.Lease <= e.Renew || e.Renew <= e.RetryWait || e.RetryWait <= 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration %s, -renew-deadline %s, -retry-period %s: each must be longer than the next", e.Lease, e.Renew, e.RetryWait))
	}
	if c.leaderElect && (c.election.Namespace == "" || c.election.Name == "") {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-namespace %q, --leader-elect-resource-name %q: give both, or neither; is a variable of the shell not set?", c.election.Namespace, c.election.Name))
	}
	ignored.Tell(f, log)
	run.Klog.Tell(f, log)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", run.ErrUsage, err)
	}
	return nil
}
