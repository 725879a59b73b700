package kube

import (
	"context"
	"fmt"
	"strconv"
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
// every 10 s: of two API servers' too, the later one is the greater, whatever the
// node's clock says. A row of questions begins with first as 0, which the API
// server answers as it is; later ones, with the first answer, come from its
// memory: many may ask.
func (c *Client) NodeReport(ctx context.Context, node string, first uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var options metav1.GetOptions
	if first != 0 {
		options.ResourceVersion = "0"
	}
	lease, err := c.Typed.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, options)
	if err != nil {
		return 0, fmt.Errorf("get lease of node %s: %w", node, err)
	}
	version, err := strconv.ParseUint(lease.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("lease of node %s: its metadata.resourceVersion is no number, so that a later one cannot be told; use an API server whose versions can be compared (KEP-5504): %w", node, err)
	}
	return version, nil
}
