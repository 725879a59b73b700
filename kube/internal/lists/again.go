package lists

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/gridmesh/gridmesh/kube"
)

// Again is between a reflector and the API server: it has one watch open at most, and ends it
// where a list is due. The zero value is ready.
type Again struct {
	mu     sync.Mutex
	end    func()      // of the watch that is open; nil for none
	timer  *time.Timer // of the next look; nil for none
	relist bool        // the watch is not to go on: a list is due
	pace   kube.Pace
}

// List is called before a list is asked for.
func (a *Again) List() { a.begin(true) }

// Initial reports whether a watch tells first all there is, as a list does.
func Initial(o metav1.ListOptions) bool { return o.SendInitialEvents != nil && *o.SendInitialEvents }

// Watch opens a watch with such options. Where a list is due and this is none it fails, with what
// a reflector lists for.
func (a *Again) Watch(ctx context.Context, o metav1.ListOptions, open func(ctx context.Context) (apiwatch.Interface, error)) (apiwatch.Interface, error) {
	if due := a.begin(Initial(o)); due {
		return nil, apierrors.NewResourceExpired("a list is looked at again")
	}
	if err := a.pace.Wait(ctx); err != nil {
		return nil, err
	}
	w, err := open(ctx)
	if err != nil {
		return nil, err
	}
	done := context.AfterFunc(ctx, w.Stop)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = func() { done(); w.Stop() }
	a.pace.Opened()
	if a.relist { // meanwhile
		a.end()
	}
	return w, nil
}

// begin ends the watch before, which a reflector may have left open, and
// reports whether a list is due and this is none.
func (a *Again) begin(list bool) (due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endWatch()
	if list {
		a.relist = false
		a.stopTimer()
	}
	return a.relist
}

func (a *Again) endWatch() {
	if a.end != nil {
		a.end()
	}
	a.end = nil
}

// After has the reflector list anew after a pause, and some more, for many
// nodes may have been told the same at the same time.
func (a *Again) After(pause time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopTimer()
	a.timer = time.AfterFunc(pause+rand.N(pause/5+1), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.relist = true
		a.pace.Forget()
		a.endWatch()
	})
}

// Rest ends what waits to look again.
func (a *Again) Rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopTimer()
}

func (a *Again) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
