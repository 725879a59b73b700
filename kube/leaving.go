package kube

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
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

// errLooked has a reflector list, and no watch go on.
var errLooked = apierrors.NewResourceExpired("the own Node is looked at again")

// endsWithin is how much later than it was asked to an API server may end a watch.
const endsWithin = 30 * time.Second

// FollowLeaving watches one Node until ctx ends, and tells whether it is about to go, with
// every version of it. One that is gone tells nothing: what was told last stands. A taint
// is no metadata, so that the watch of all Nodes does not have it.
func (c *Client) FollowLeaving(ctx context.Context, node string, tell func(leaving bool)) error {
	(&ownNode{client: c, name: node}).follow(ctx, tell)
	return nil
}

// ownNode asks for one Node, in the name of one reflector.
type ownNode struct {
	client *Client
	name   string
	pace   Pace
	moved  int64           // Moves of the client, as the Node was listed
	last   context.Context // of the watch before; nil for none
	hurry  time.Duration   // how many times as fast a watch is over; 0 for once
}

func (n *ownNode) follow(ctx context.Context, tell func(leaving bool)) {
	api := &cache.ListWatch{ListWithContextFunc: n.list, WatchFuncWithContext: n.watch}
	cache.NewReflectorWithOptions(api, &corev1.Node{}, leavingStore{tell}, cache.ReflectorOptions{Name: "gridmesh/own-node"}).RunWithContext(ctx)
}

func (n *ownNode) only() string {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, n.name).String()
}

// list asks for the newest, but for the first time: a reflector asks for the version that it knows.
func (n *ownNode) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	n.moved, n.last = n.client.Moves(), nil
	if o.ResourceVersion != "0" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	o.FieldSelector = n.only()
	return n.client.Typed.CoreV1().Nodes().List(ctx, o)
}

// watch ends by itself where the API server does not end it: who is on the way to that may keep a connection
// alive, and pass nothing on. After such a one the Node is listed, and where the API server is another one.
func (n *ownNode) watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, errListed
	}
	deaf := n.last != nil && errors.Is(n.last.Err(), context.DeadlineExceeded)
	if deaf || n.client.Moves() != n.moved {
		return nil, errLooked
	}
	if err := n.pace.Wait(ctx); err != nil {
		return nil, err
	}
	o.FieldSelector = n.only()
	most := time.Duration(ptr.Deref(o.TimeoutSeconds, 0))*time.Second + endsWithin
	ctx, cancel := context.WithTimeout(ctx, most/max(1, n.hurry))
	w, err := Answered(n.client.Typed.CoreV1().Nodes().Watch(ctx, o))
	if err == nil || Outdated(err) {
		n.pace.Opened()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	n.last = ctx
	w = bounded{w, cancel}
	if n.client.Moves() != n.moved { // meanwhile
		w.Stop()
		return nil, errLooked
	}
	return w, nil
}

// bounded is a watch that has a time.
type bounded struct {
	apiwatch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (b bounded) Stop() {
	b.Interface.Stop()
	b.cancel()
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
