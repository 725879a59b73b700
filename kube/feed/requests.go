package feed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/lists"
)

// listWatcher is what the clients of all kinds have.
type listWatcher[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error)
}

// requests asks for a selection of one kind, in the name of one reflector,
// and notes how the API server answers. It has one watch open at most.
type requests[L runtime.Object] struct {
	feed     *Feed
	api      listWatcher[L]
	name     string // of the watch
	selector string
	again    lists.Again
}

func newRequests[L runtime.Object](f *Feed, api listWatcher[L], s selection) *requests[L] {
	return &requests[L]{feed: f, api: api, name: s.Name, selector: s.selector}
}

func (r *requests[L]) listWatch() cache.ListerWatcher {
	return &cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
}

func (r *requests[L]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	r.again.List(&o)
	o.LabelSelector = r.selector
	list, err := r.api.List(ctx, o)
	if err == nil {
		err = r.again.Page(o, list)
	}
	r.feed.note(r.name, verbList, err)
	return list, err
}

func (r *requests[L]) watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	return r.again.Watch(ctx, o, func(ctx context.Context) (apiwatch.Interface, error) {
		o.LabelSelector = r.selector
		w, err := kube.Answered(r.api.Watch(ctx, o))
		if err != nil && ctx.Err() != nil { // it was given up, for a list or for good
			return w, err
		}
		v := verbWatch
		if err != nil && lists.Initial(o) { // a list is asked for then
			v = verbList
		}
		r.feed.note(r.name, v, err)
		if _, unknown := w.(stopper); unknown { // which the API server has just said, and will say no more
			r.feed.told(r.name)
		}
		return w, err
	})
}
