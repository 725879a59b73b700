package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/yaml"
)

// Election is how replicas agree on one that acts.
type Election struct {
	Namespace, Name         string // of the Lease
	Identity                string // of this replica
	Lease, Renew, RetryWait time.Duration
}

// ErrLeaderLost means that another replica leads now, or that the API server
// could not be reached long enough for one to.
var ErrLeaderLost = errors.New("the lease was lost")

// Lead waits to be the leader and runs f as long as it is.
func (c *Client) Lead(ctx context.Context, e Election, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var result error
	began, ended := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}, Client: c.kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		},
		LeaseDuration: e.Lease, RenewDeadline: e.Renew, RetryPeriod: e.RetryWait, ReleaseOnCancel: true, Name: e.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(began)
				defer close(ended)
				result = f(ctx)
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	elector.Run(ctx)
	lost := ctx.Err() == nil
	cancel()
	select {
	case <-began:
		<-ended // Run does not wait for it
	default:
		return nil // ended before it led
	}
	if lost && result == nil {
		return ErrLeaderLost
	}
	return result
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// InstallCRD applies a CustomResourceDefinition where the live one differs, as
// same finds, and waits until it serves.
func (c *Client) InstallCRD(ctx context.Context, manifest []byte, manager string, same func(wanted, live any) bool) error {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &u.Object); err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	api := c.dynamic.Resource(crdResource)
	for {
		live, err := api.Get(ctx, u.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !same(u.Object["spec"], live.Object["spec"]) {
			live, err = api.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: true})
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
			return fmt.Errorf("install CRD %s: %w", u.GetName(), err)
		}
		if err == nil && established(live) {
			return nil
		}
		select { // not served yet, or the API server is away
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("install CRD %s: %w", u.GetName(), errors.Join(ctx.Err(), err))
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
