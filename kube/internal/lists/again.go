package lists

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/gridmesh/gridmesh/kube"
)

// Again is between a reflector and the API server: it has one watch open at most, and ends it
// where a list is due, or nothing comes of it (silence.go). The zero value is ready.
type Again struct {
	mu     sync.Mutex
	end    func()      // of the watch that is open; nil for none
	timer  *time.Timer // of the next look; nil for none
	relist bool        // the watch is not to go on: a list is due
	pace   kube.Pace

	silence silence
}

// errSilent has a reflector ask for a list where it would have one streamed.
var errSilent = errors.New("watches of this say nothing: it is listed without")

// List is called before a list is asked for, with its options. A reflector that lists again asks for the
// version that it knows, and with a limit that is exactly that one: whoever is deaf, or doubts a list, would
// be told the same again. It gets the newest.
func (a *Again) List(o *metav1.ListOptions) {
	if o.Continue == "" && o.ResourceVersion != "0" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	a.begin(true)
}

// Initial reports whether a watch tells first all there is, as a list does.
func Initial(o metav1.ListOptions) bool { return o.SendInitialEvents != nil && *o.SendInitialEvents }

// Watch opens a watch with such options. Where a list is due and this is none it fails, with what
// a reflector lists for.
func (a *Again) Watch(ctx context.Context, o metav1.ListOptions, open func(ctx context.Context) (apiwatch.Interface, error)) (apiwatch.Interface, error) {
	if Initial(o) && !a.Silent().IsZero() {
		return nil, errSilent
	}
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
	a.mu.Lock()
	defer a.mu.Unlock()
	w = a.listen(w, Initial(o))
	done := context.AfterFunc(ctx, w.Stop)
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
		a.silence.end(true)
		a.relist = false
		a.stopTimer()
	}
	return a.relist
}

func (a *Again) endWatch() {
	a.silence.end(a.relist)
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
		a.listAnew()
	})
}

// listAnew ends the watch for a list, on purpose. The lock is held.
func (a *Again) listAnew() {
	a.relist = true
	a.pace.Forget()
	a.endWatch()
}

// Rest ends what waits to look again.
func (a *Again) Rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopTimer()
	a.silence.end(false)
}

func (a *Again) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
