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
	selector string

	mu     sync.Mutex
	end    func()      // of the watch that is open; nil for none
	timer  *time.Timer // of the next look; nil for none
	relist bool        // the watch is not to go on: a list is due
	opened time.Time   // the watch before
	pause  time.Duration
}

// A watch that ended within shortWatch is followed by a pause, doubled up to
// longestPause: client-go begins the next one at once where the one before told
// anything, a bookmark for example.
const (
	shortWatch   = time.Second
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
)

func newRequests[L runtime.Object](f *Feed, api listWatcher[L], selector string) *requests[L] {
	return &requests[L]{feed: f, api: api, selector: selector}
}

func (r *requests[L]) listWatch() cache.ListerWatcher {
	return &cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
}

func (r *requests[L]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	r.begin(true)
	o.LabelSelector = r.selector
	list, err := r.api.List(ctx, o)
	r.feed.note(err)
	return list, err
}

func (r *requests[L]) watch(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	if due := r.begin(o.SendInitialEvents != nil && *o.SendInitialEvents); due {
		return nil, apierrors.NewResourceExpired("a list is looked at again") // which is what a reflector lists for
	}
	if err := r.pace(ctx); err != nil {
		return nil, err
	}
	o.LabelSelector = r.selector
	w, err := r.api.Watch(ctx, o)
	r.feed.note(err)
	if err != nil {
		return nil, err
	}
	done := context.AfterFunc(ctx, w.Stop)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end, r.opened = func() { done(); w.Stop() }, time.Now()
	if r.relist { // meanwhile
		r.end()
	}
	return w, nil
}

// pace waits where watches do not last.
func (r *requests[L]) pace(ctx context.Context) error {
	r.mu.Lock()
	if time.Since(r.opened) >= shortWatch {
		r.pause = 0
	} else {
		r.pause = min(max(2*r.pause, firstPause), longestPause)
	}
	pause := r.pause
	r.mu.Unlock()
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
		r.relist, r.opened = true, time.Time{} // it is ended here: it might have lasted
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
