package feed

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// upgraded is how often an API server that does not know a kind is asked
// whether it does by now. It is less than lists.Quiet: such a watch is no silent one.
const upgraded = 150 * time.Second

// newer asks for a kind that older API servers do not know: to those it has no
// objects, and nothing of it changes.
type newer[L runtime.Object] struct {
	api  listWatcher[L]
	none func() L
	// has asks the API server whether it knows the kind.
	has func(ctx context.Context) (bool, error)
}

// List is empty where the kind is not known.
func (n newer[L]) List(ctx context.Context, o metav1.ListOptions) (L, error) {
	list, err := n.api.List(ctx, o)
	if o.Continue == "" && n.unknown(ctx, err) {
		return n.none(), nil
	}
	return list, err
}

// Watch stays open, and idle, where the kind is not known; it ends as one
// that is too old, so that a reflector lists.
func (n newer[L]) Watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	w, err := n.api.Watch(ctx, o)
	if o.SendInitialEvents != nil || !n.unknown(ctx, err) {
		return w, err // a reflector that is refused a watch-list lists
	}
	idle := apiwatch.NewRaceFreeFake()
	expired := apierrors.NewResourceExpired("the API server may know the kind by now").Status()
	timer := time.AfterFunc(upgraded, func() { idle.Error(&expired) })
	return stopper{idle, timer}, nil
}

type stopper struct {
	*apiwatch.RaceFreeFakeWatcher
	timer *time.Timer
}

// Stop implements watch.Interface.
func (s stopper) Stop() {
	s.timer.Stop()
	s.RaceFreeFakeWatcher.Stop()
}

// unknown reports whether the API server says that it has no such kind. A 404
// alone does not say so: it may be a load balancer's.
func (n newer[L]) unknown(ctx context.Context, err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	has, err := n.has(ctx)
	return err == nil && !has
}
