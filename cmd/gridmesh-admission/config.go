package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/run"
)

// Bounds of a certificate's lifetime: in a shorter one no rotation fits.
const (
	minLifetime = 30 * time.Second
	maxLifetime = 10 * 365 * 24 * time.Hour
)

// config is every choice that the flags offer.
type config struct {
	kubeconfig  string
	namespace   string
	webhook     string
	healthz     string
	metrics     string
	secure      string
	tls         run.CertificateFiles
	hosts       []string
	lifetime    time.Duration
	leaderElect bool
	identity    string
	verbose     bool
}

func defaults() *config {
	host, _ := os.Hostname()
	return &config{
		namespace: "gridmesh", webhook: "0.0.0.0:8443", healthz: "0.0.0.0:10367", metrics: "127.0.0.1:10368",
		lifetime: 90 * 24 * time.Hour, leaderElect: true, identity: fmt.Sprintf("%s-%d", host, os.Getpid()),
	}
}

// ignored are flags of SuperEdge's edge-health-admission that mean nothing here. They
// are accepted, so that its manifests go on working.
var ignored = run.Ignored{
	"masterurl": "the address is in --kubeconfig", "always-reachable": "gridmesh-controller decides who is shielded",
}

func (c *config) bind(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: in-cluster credentials)")
	f.StringVar(&c.namespace, "namespace", c.namespace, "namespace of "+names.Shield+", of "+names.AdmissionCerts+" and of the Lease")
	f.StringVar(&c.webhook, "webhook-bind-address", c.webhook, "address that API servers ask, over TLS")
	f.StringVar(&c.healthz, "healthz-bind-address", c.healthz, "address of /healthz and /readyz; empty for none")
	f.StringVar(&c.metrics, "metrics-bind-address", c.metrics, "address of /metrics; empty for none")
	f.StringVar(&c.secure, "secure-metrics-bind-address", c.secure, "address of /metrics over TLS, for tokens whose owner may get the nonResourceURL /metrics; empty for none")
	f.StringVar(&c.tls.Cert, "tls-cert-file", c.tls.Cert, "the webhook's certificate (PEM), which is followed, where somebody else makes it and sets caBundle; empty for one of its own")
	f.StringVar(&c.tls.Key, "tls-key-file", c.tls.Key, "the key of that")
	f.StringSliceVar(&c.hosts, "certificate-hosts", c.hosts, "names and addresses that its own certificate is for (default: the Service "+names.Admission+" in --namespace)")
	f.DurationVar(&c.lifetime, "certificate-lifetime", c.lifetime, "how long its own certificate is valid; the next one is made when a third of that is left")
	f.BoolVar(&c.leaderElect, "leader-elect", c.leaderElect, "let one replica make the certificate, by a Lease")
	f.BoolVarP(&c.verbose, "verbose", "v", false, "log more")
	run.Files(f, "kubeconfig", "tls-cert-file", "tls-key-file")
	c.bindSuperEdge(f)
}

// bindSuperEdge binds the names of SuperEdge's flags beside ours, spelt as it spells them.
func (c *config) bindSuperEdge(f *pflag.FlagSet) {
	for _, alias := range []struct {
		name, ours string
		value      *string
	}{
		{"adminssion-control-listen-addr", "webhook-bind-address", &c.webhook},
		{"admission-control-server-cert", "tls-cert-file", &c.tls.Cert},
		{"admission-control-server-key", "tls-key-file", &c.tls.Key},
		{"kubeconfigpath", "kubeconfig", &c.kubeconfig},
	} {
		f.StringVar(alias.value, alias.name, *alias.value, "SuperEdge's name of --"+alias.ours)
		_ = f.MarkHidden(alias.name)
	}
	ignored.Bind(f)
	run.Klog.Bind(f)
}

func (c *config) complete(f *pflag.FlagSet, log *slog.Logger) error {
	var errs []error
	if c.webhook == "" {
		errs = append(errs, errors.New("--webhook-bind-address is empty: nobody could ask"))
	}
	errs = append(errs, run.CheckTCP("webhook-bind-address", c.webhook), run.CheckTCP("healthz-bind-address", c.healthz),
		run.CheckTCP("metrics-bind-address", c.metrics), run.CheckTCP("secure-metrics-bind-address", c.secure))
	if (c.tls.Cert == "") != (c.tls.Key == "") {
		errs = append(errs, errors.New("--tls-cert-file, --tls-key-file: give both, or neither"))
	}
	if c.namespace == "" {
		errs = append(errs, errors.New("--namespace is empty; is a variable of the shell not set?"))
	}
	if c.lifetime < minLifetime || c.lifetime > maxLifetime {
		errs = append(errs, fmt.Errorf("--certificate-lifetime %s: must be between %s and %s", c.lifetime, minLifetime, maxLifetime))
	}
	if len(c.hosts) == 0 {
		c.hosts = []string{names.Admission + "." + c.namespace + ".svc"}
	}
	for _, host := range c.hosts {
		if net.ParseIP(host) == nil && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || strings.Contains(host, "..") || host == "" {
			errs = append(errs, fmt.Errorf("--certificate-hosts %q is no address and no name in small letters; a port is not part of it", host))
		}
	}
	ignored.Tell(f, log)
	run.Klog.Tell(f, log)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", run.ErrUsage, err)
	}
	return nil
}
