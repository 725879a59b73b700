package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube"
)

// permitted asks for one object of each kind that a state is made of. A feed
// goes on trying where it is forbidden, as rights may come; people want to know
// at once. Other failures are left to the feed. The kinds are those of feed.Feed, held
// by test/docs.
func permitted(ctx context.Context, client *kube.Client) error {
	one := metav1.ListOptions{Limit: 1}
	for _, kind := range []struct {
		name string
		list func() error
	}{
		{"services", func() error { _, err := client.Typed.CoreV1().Services("").List(ctx, one); return err }},
		{"endpointslices", func() error { _, err := client.Typed.DiscoveryV1().EndpointSlices("").List(ctx, one); return err }},
		{"nodes", func() error { _, err := client.Typed.CoreV1().Nodes().List(ctx, one); return err }},
		{"servicecidrs", func() error { _, err := client.Typed.NetworkingV1().ServiceCIDRs().List(ctx, one); return err }},
	} {
		if err := kind.list(); apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return fmt.Errorf("list %s: %w", kind.name, err)
		}
	}
	return nil
}
