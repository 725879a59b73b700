package feed

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/kube"
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

	mu     sync.Mutex
	end    func()      // of the watch that is open; nil for none
	timer  *time.Timer // of the next look; nil for none
	relist bool        // the watch is not to go on: a list is due
	pace   kube.Pace
}

func newRequests[L runtime.Object](f *Feed, api listWatcher[L], s selection) *requests[L] {
	return &requests[L]{feed: f, api: api, name: s.name, selector: s.selector}
}

func (r *requests[L]) listWatch() cache.ListerWatcher {
	return &cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
}

func (r *requests[L]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	r.begin(true)
	o.LabelSelector = r.selector
	list, err := r.api.List(ctx, o)
	r.feed.note(r.name, verbList, err)
	return list, err
}

func (r *requests[L]) watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	if due := r.begin(o.SendInitialEvents != nil && *o.SendInitialEvents); due {
		return nil, apierrors.NewResourceExpired("a list is looked at again") // which is what a reflector lists for
	}
	if err := r.pace.Wait(ctx); err != nil {
		return nil, err
	}
	o.LabelSelector = r.selector
	w, err := kube.Answered(r.api.Watch(ctx, o))
	v := verbWatch
	if err != nil && o.SendInitialEvents != nil && *o.SendInitialEvents { // a list is asked for then
		v = verbList
	}
	r.feed.note(r.name, v, err)
	if err != nil {
		return nil, err
	}
	done := context.AfterFunc(ctx, w.Stop)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = func() { done(); w.Stop() }
	r.pace.Opened()
	if r.relist { // meanwhile
		r.end()
	}
	return w, nil
}

// begin ends the watch before, which a reflector may have left open, and
// reports whether a list is due and this is none.
func (r *requests[L]) begin(list bool) (due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endWatch()
	if list {
		r.relist = false
		r.stopTimer()
	}
	return r.relist
}

func (r *requests[L]) endWatch() {
	if r.end != nil {
		r.end()
	}
	r.end = nil
}

// lookAgain has the reflector list anew after a pause, and some more, for many
// nodes may have been told the same at the same time.
func (r *requests[L]) lookAgain(pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopTimer()
	r.timer = time.AfterFunc(pause+rand.N(pause/5+1), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.relist = true
		r.pace.Forget()
		r.endWatch()
	})
}

func (r *requests[L]) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopTimer()
}

func (r *requests[L]) stopTimer() {
	if r.timer != nil {
		r.timer.Stop()
	}
}
