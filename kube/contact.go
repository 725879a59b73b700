package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reachable asks whether the API server is ready, and returns nil where it
// answers so, or that this is not ours to ask.
func (c *Client) Reachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := c.Typed.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	if err == nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return nil
	}
	return fmt.Errorf("ask for /readyz: %w", err)
}

// NodeReport returns the version of a node's lease, which its kubelet renews
// every 10 s. It comes from the API server's memory: many may ask.
func (c *Client) NodeReport(ctx context.Context, node string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	lease, err := c.Typed.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return "", fmt.Errorf("get lease of node %s: %w", node, err)
	}
	return lease.ResourceVersion, nil
}
