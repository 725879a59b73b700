package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// NetworkPolicy returns the namespace and name of a NetworkPolicy, as shop/closed; "" where
// there is none. The version is that of the answer, for AwaitNetworkPolicy.
func (c *Client) NetworkPolicy(ctx context.Context) (name, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := c.Typed.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", "", fmt.Errorf("list networkpolicies: %w", err)
	}
	if len(list.Items) > 0 {
		name = nameOf(&list.Items[0])
	}
	return name, list.ResourceVersion, nil
}

func nameOf(p *networkingv1.NetworkPolicy) string { return p.Namespace + "/" + p.Name }

var errWatchEnded = errors.New("the watch of networkpolicies ended before its time")

// AwaitNetworkPolicy waits until a NetworkPolicy is made after an answer of that version,
// and returns its name; "" when none was made in the time. An error says that it cannot
// tell: the API server allows or keeps no watch.
func (c *Client) AwaitNetworkPolicy(ctx context.Context, version string, most time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	w, err := Answered(c.Typed.NetworkingV1().NetworkPolicies("").Watch(ctx, metav1.ListOptions{ResourceVersion: version}))
	switch {
	case ctx.Err() != nil: // nobody answered in all the time; the next list tells
		return "", nil
	case err != nil:
		return "", fmt.Errorf("watch networkpolicies: %w", err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		p, ok := e.Object.(*networkingv1.NetworkPolicy)
		switch {
		case e.Type == apiwatch.Error:
			return "", fmt.Errorf("watch networkpolicies: %w", apierrors.FromObject(e.Object))
		case ok && e.Type != apiwatch.Deleted && e.Type != apiwatch.Bookmark:
			return nameOf(p), nil
		}
	}
	if ctx.Err() == nil {
		return "", errWatchEnded
	}
	return "", nil
}
