package lead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/kube"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// crdRetry is how often is asked whether a CRD serves by now.
const crdRetry = 200 * time.Millisecond

// crdRefused is how long an API server may forbid before that is believed: one
// that has just started forbids everybody everything, until it has read its
// rules.
const crdRefused = 30 * time.Second

// crdCheck is how often CRDs that serve are looked at again.
const crdCheck = 30 * time.Second

// CRDs are CustomResourceDefinitions that a program installs and keeps.
type CRDs struct {
	Client    *kube.Client
	Manifests [][]byte                    // YAML, one CRD each
	Manager   string                      // field manager
	Same      func(wanted, live any) bool // of two specs
	Log       *slog.Logger
	Refused   time.Duration // how long it may be forbidden before Install gives up; 0: 30 s
	Every     time.Duration // how often Keep looks, and for how long; 0: 30 s
	Found     func(error)   // is told what each look of Keep came to; nil: nobody is
}

// Install applies each CRD where the spec of the live one differs, and waits
// until it serves. It tries until ctx ends, unless the API server refuses a
// manifest, or for Refused the right to apply it. One that fails stops no other.
func (c *CRDs) Install(ctx context.Context) error {
	errs := make([]error, len(c.Manifests))
	var wg sync.WaitGroup
	for i, manifest := range c.Manifests {
		wg.Go(func() {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(manifest, &u.Object); err != nil {
				errs[i] = fmt.Errorf("read CRD: %w", err)
			} else if err := c.install(ctx, u); err != nil {
				errs[i] = fmt.Errorf("install CRD %s: %w", u.GetName(), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Keep brings back what others change, until ctx ends. Nothing is written
// where the CRDs are as they are to be.
func (c *CRDs) Keep(ctx context.Context) error {
	every := cmp.Or(c.Every, crdCheck)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		look, cancel := context.WithTimeout(ctx, every) // Install waits for as long as it may
		err := c.Install(look)
		cancel()
		if ctx.Err() != nil {
			continue // and is over
		}
		if err != nil {
			c.Log.Error("could not keep the CRDs; trying again", obs.KeyErr, err)
		}
		if c.Found != nil {
			c.Found(err)
		}
	}
}

func (c *CRDs) install(ctx context.Context, u *unstructured.Unstructured) error {
	api := c.Client.Dynamic.Resource(crdResource)
	var refused time.Time // since when, without a break; zero: it is not
	for {
		live, _, err := applied(ctx, api, u, c.Manager, c.Same)
		switch {
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			return err
		case !apierrors.IsForbidden(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) >= cmp.Or(c.Refused, crdRefused):
			return err
		}
		if err == nil && established(live) {
			return nil
		}
		select { // not served yet, or the API server is away, or begins
		case <-time.After(crdRetry):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
			return true
		}
	}
	return false
}
