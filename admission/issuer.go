package admission

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/admission/certs"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/kube/objects"
)

// configurationKind is the kind of the webhook's registration.
const configurationKind = "MutatingWebhookConfiguration"

// IssuerKinds are what an Issuer reads and writes.
func IssuerKinds(namespace string) []objects.Kind {
	return []objects.Kind{CertsKind(namespace), {
		Resource: schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		Kind:     configurationKind, Name: names.Admission,
	}}
}

// Store is what an Issuer reads and writes: an objects.Mirror.
type Store interface {
	Mirror
	Merge(ctx context.Context, kind, namespace, name string, patch map[string]any) (map[string]any, error)
}

// How often is looked at what is due, besides when something changes.
const (
	lookOften  = 100 * time.Millisecond
	lookSeldom = 10 * time.Second
)

// Issuer makes the certificates and has the API servers believe them: the Secret is the
// truth, and each write of it or of the configuration is one of the version that was
// read. One replica does it.
type Issuer struct {
	store     Store
	namespace string
	policy    certs.Policy
	metrics   *Metrics
	log       *slog.Logger

	failing map[string]*quiet.Line // by what is to be done, or missing
	next    []byte                 // authority of the next pair, when last seen
	since   time.Time              // since when the configuration has it everywhere
}

// NewIssuer keeps certificates of a policy, in the Secret of a namespace.
func NewIssuer(s Store, namespace string, p certs.Policy, m *Metrics, log *slog.Logger) *Issuer {
	return &Issuer{store: s, namespace: namespace, policy: p, metrics: m, log: log, failing: map[string]*quiet.Line{}}
}

// Run works until ctx ends. The store is to be whole before.
func (i *Issuer) Run(ctx context.Context) error {
	tick := time.NewTicker(min(max(i.policy.Settle/4, lookOften), lookSeldom))
	defer tick.Stop()
	for {
		if what, err := i.step(ctx, time.Now()); err != nil && ctx.Err() == nil {
			i.fail(what, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-i.store.Wake():
		case <-tick.C:
		}
	}
}

// fail counts a failure, and says it now and then.
func (i *Issuer) fail(what string, err error) {
	i.metrics.failures.Inc()
	line := i.failing[what]
	if line == nil {
		line = &quiet.Line{}
		i.failing[what] = line
	}
	line.Say(i.log.Error, "cannot keep the webhook's certificate; trying again", obs.KeyErr, err)
}

var (
	errNoSecret        = errors.New("there is no Secret " + names.AdmissionCerts + " to keep the certificate in: apply deploy/admission, which has an empty one")
	errNoConfiguration = errors.New("there is no " + configurationKind + " " + names.Admission + ": nobody asks the webhook; apply deploy/admission")
)

// step does what is due, at most one write, and returns what that is.
func (i *Issuer) step(ctx context.Context, now time.Time) (what string, err error) {
	secret := i.store.Get("Secret", i.namespace, names.AdmissionCerts)
	if secret == nil {
		return "secret", errNoSecret
	}
	config := i.store.Get(configurationKind, "", names.Admission)
	stored, live := certs.Decode(certs.Data(secret)), certs.Live{Bundles: bundles(config)}
	live.Since = i.seen(stored.Next.CA, live, now)
	do := i.policy.Next(stored, live, now)
	switch do {
	case certs.Rest:
		if config == nil {
			return "configuration", errNoConfiguration
		}
		return "", nil
	case certs.Publish:
		err = i.publish(ctx, config, stored.Bundle(now))
	case certs.Begin, certs.Prepare, certs.Promote:
		var next certs.Stored
		if next, err = i.policy.Do(do, stored, now); err == nil {
			err = i.keep(ctx, secret, next)
		}
	}
	if apierrors.IsConflict(err) {
		return "", nil // somebody was faster; what he wrote comes by the watch
	}
	if err != nil {
		return do.String(), fmt.Errorf("%s: %w", do, err)
	}
	i.metrics.issued.WithLabelValues(do.String()).Inc()
	i.log.Info("took a step for the webhook's certificate", obs.KeyAction, do)
	return "", nil
}

// seen notes since when the authority of the next pair is in the configuration.
func (i *Issuer) seen(ca []byte, live certs.Live, now time.Time) time.Time {
	switch {
	case !live.Holds(ca):
		i.next, i.since = nil, time.Time{}
	case !bytes.Equal(ca, i.next):
		i.next, i.since = bytes.Clone(ca), now
	}
	return i.since
}

// keep writes the Secret, of the version that was read.
func (i *Issuer) keep(ctx context.Context, secret map[string]any, s certs.Stored) error {
	data := map[string]any{}
	for key, value := range s.Encode() {
		if data[key] = nil; len(value) > 0 {
			data[key] = base64.StdEncoding.EncodeToString(value)
		}
	}
	_, err := i.store.Merge(ctx, "Secret", i.namespace, names.AdmissionCerts, map[string]any{"metadata": version(secret), "data": data})
	return err
}

// publish writes the bundle into each webhook of the configuration, of the version that
// was read: a merge patch has lists whole.
func (i *Issuer) publish(ctx context.Context, config map[string]any, bundle []byte) error {
	list, _ := config["webhooks"].([]any)
	next := make([]any, 0, len(list))
	for _, w := range list {
		hook, _ := w.(map[string]any)
		client, _ := hook["clientConfig"].(map[string]any)
		hook, client = maps.Clone(hook), maps.Clone(client)
		if hook == nil || client == nil {
			return fmt.Errorf("%s %s: a webhook of it has no clientConfig", configurationKind, names.Admission)
		}
		client["caBundle"] = base64.StdEncoding.EncodeToString(bundle)
		hook["clientConfig"] = client
		next = append(next, hook)
	}
	_, err := i.store.Merge(ctx, configurationKind, "", names.Admission, map[string]any{"metadata": version(config), "webhooks": next})
	return err
}

// version is what a write has to name so that it is of what was read.
func version(obj map[string]any) map[string]any {
	meta, _ := obj["metadata"].(map[string]any)
	return map[string]any{"resourceVersion": meta["resourceVersion"]}
}

// bundles are what the webhooks of a configuration have for authorities.
func bundles(config map[string]any) (list [][]byte) {
	webhooks, _ := config["webhooks"].([]any)
	for _, w := range webhooks {
		hook, _ := w.(map[string]any)
		client, _ := hook["clientConfig"].(map[string]any)
		text, _ := client["caBundle"].(string)
		bundle, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			bundle = nil
		}
		list = append(list, bundle)
	}
	return list
}
