package kube

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// toBeDeleted is the taint that the cluster autoscaler puts on a Node before it takes the
// machine away.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// leaving reports whether a Node is about to go, as kube-proxy reads it (KEP-3836).
func leaving(n *corev1.Node) bool {
	if !n.DeletionTimestamp.IsZero() {
		return true
	}
	for _, t := range n.Spec.Taints {
		if t.Key == toBeDeleted {
			return true
		}
	}
	return false
}

// errListed has a reflector list: a stream may be asked for again and again where it is cut, and of
// one Node there is nothing to stream.
var errListed = errors.New("one Node is listed, not streamed")

// FollowLeaving watches one Node until ctx ends, and tells whether it is about to go, with
// every version of it. One that is gone tells nothing: what was told last stands. A taint
// is no metadata, so that the watch of all Nodes does not have it.
func (c *Client) FollowLeaving(ctx context.Context, node string, tell func(leaving bool)) error {
	nodes, only, pace := c.Typed.CoreV1().Nodes(), fields.OneTermEqualSelector(metav1.ObjectNameField, node).String(), &Pace{}
	api := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return nodes.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, errListed
			}
			if err := pace.Wait(ctx); err != nil {
				return nil, err
			}
			o.FieldSelector = only
			w, err := Answered(nodes.Watch(ctx, o))
			if err == nil || Outdated(err) {
				pace.Opened()
			}
			return w, err
		},
	}
	cache.NewReflectorWithOptions(api, &corev1.Node{}, leavingStore{tell}, cache.ReflectorOptions{Name: "gridmesh/own-node"}).RunWithContext(ctx)
	return nil
}

// leavingStore is where a reflector puts one Node, of which nothing is kept.
type leavingStore struct{ tell func(leaving bool) }

// Add implements cache.ReflectorStore.
func (s leavingStore) Add(obj any) error {
	if n, ok := obj.(*corev1.Node); ok {
		s.tell(leaving(n))
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (s leavingStore) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (leavingStore) Delete(any) error { return nil }

// Replace implements cache.ReflectorStore.
func (s leavingStore) Replace(list []any, _ string) error {
	for _, obj := range list {
		_ = s.Add(obj)
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (leavingStore) Resync() error { return nil }
