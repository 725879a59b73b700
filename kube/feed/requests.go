package feed

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// listWatcher is what the clients of all kinds have.
type listWatcher[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error)
}

// requests asks for a selection of one kind, in the name of one reflector,
// and notes how the API server answers.
type requests[L runtime.Object] struct {
	feed     *Feed
	api      listWatcher[L]
	selector string

	mu  sync.Mutex
	end func() // of the watch before; nil for none
}

func newRequests[L runtime.Object](f *Feed, api listWatcher[L], selector string) cache.ListerWatcher {
	r := &requests[L]{feed: f, api: api, selector: selector}
	return &cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
}

func (r *requests[L]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	r.endWatch(nil)
	o.LabelSelector = r.selector
	list, err := r.api.List(ctx, o)
	r.feed.note(err)
	return list, err
}

func (r *requests[L]) watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	r.endWatch(nil)
	o.LabelSelector = r.selector
	w, err := r.api.Watch(ctx, o)
	r.feed.note(err)
	if err == nil {
		done := context.AfterFunc(ctx, w.Stop)
		r.endWatch(func() { done(); w.Stop() })
	}
	return w, err
}

// endWatch ends the watch before, and notes how to end the next. A reflector
// whose watch-list was held back begins anew and leaves that watch open
// (client-go 0.37), which would add up.
func (r *requests[L]) endWatch(next func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		r.end()
	}
	r.end = next
}
