package lists

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/gridmesh/gridmesh/kube"
)

// errDue has a reflector list anew.
var errDue = apierrors.NewResourceExpired("a list is looked at again")

// Again is between a reflector and the API server: it has one watch open at most, and ends it
// where a list is due, or nothing comes of it (silence.go). The zero value is ready.
type Again struct {
	mu     sync.Mutex
	end    func()      // of the watch that is open, or asked for; nil for none
	timer  *time.Timer // of the next look; nil for none
	relist bool        // the watch is not to go on: a list is due
	pace   kube.Pace
	pages  kube.Paging
	moves  func() int64 // how often the API server was another one; nil: it is not
	moved  int64        // as all there is was asked for, the last time

	coming  bool      // all there is was asked for, in pages or as a stream, and is not whole yet
	streams int       // that were opened for it since it was whole
	whole   time.Time // when it was, the last time

	silence silence
}

// mostStreams is how many streams of all there is may end in a row before they have told it: what
// cuts one, as a proxy does that lets none take longer, may cut each. A list comes in pages.
const mostStreams = 2

// errSilent has a reflector ask for a list where it would have one streamed.
var errSilent = errors.New("watches of this say nothing, or not all there is: it is listed without")

// List is called before a list is asked for, with its options. A reflector that lists again asks for the
// version that it knows, and with a limit that is exactly that one: whoever is deaf, or doubts a list, would
// be told the same again. It gets the newest; so does the first, of version 0, which comes as one answer,
// where that might be cut as the streams before it were.
func (a *Again) List(o *metav1.ListOptions) {
	if o.Continue == "" {
		a.asksAnew()
	}
	if o.Continue == "" && (o.ResourceVersion != "0" || !a.streamable()) {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	a.begin(true)
}

// Of says whose the API server is. What another one says is of another history perhaps, with versions that
// look alike: no watch goes on there with what this one has told.
func (a *Again) Of(c *kube.Client) { a.moves = c.Moves }

// Page is called with each page of a list, and what it was asked for with. It is an error where such a list
// would have no end.
func (a *Again) Page(asked metav1.ListOptions, page runtime.Object) error {
	_, err := a.pages.Page(asked, page)
	return err
}

// Initial reports whether a watch tells first all there is, as a list does.
func Initial(o metav1.ListOptions) bool { return o.SendInitialEvents != nil && *o.SendInitialEvents }

// Watch opens a watch with such options. Where a list is due and this is none it fails, with what
// a reflector lists for.
func (a *Again) Watch(ctx context.Context, o metav1.ListOptions, open func(ctx context.Context) (apiwatch.Interface, error)) (apiwatch.Interface, error) {
	if Initial(o) {
		if !a.streamable() {
			return nil, errSilent
		}
		a.asksAnew()
	}
	if due := a.begin(Initial(o)); due {
		return nil, errDue
	}
	if err := a.pace.Wait(ctx); err != nil {
		return nil, err
	}
	asked, giveUp := a.asks(ctx)
	w, err := open(asked)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		giveUp()
		a.refused(err, Initial(o))
		if a.relist {
			err = errDue
		}
		return nil, err
	}
	if Initial(o) {
		a.streams++
	}
	a.relist = a.relist || a.isAnother() // since it was begun: who knows which was asked
	w = a.listen(w, Initial(o))
	done := context.AfterFunc(ctx, w.Stop)
	a.end = func() { done(); w.Stop(); giveUp() }
	a.pace.Opened()
	if a.relist { // meanwhile
		a.end()
	}
	return w, nil
}

// refused notes that a version was not taken, after which a reflector asks for all there is at once, and
// as a stream for ever: it is no faster than after a watch that ended, and no other than after a stream
// that was cut. After other errors a reflector waits by itself. The lock is held.
func (a *Again) refused(err error, initial bool) {
	if !kube.Outdated(err) {
		return
	}
	a.pace.Opened()
	if initial {
		a.streams++
	}
}

// asks begins to ask for a watch, for as long as no list is due: who is asked may not answer for long.
func (a *Again) asks(ctx context.Context) (context.Context, context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, a.end = context.WithCancel(ctx)
	if a.relist { // meanwhile
		a.end()
	}
	return ctx, a.end
}

// streamable reports whether all there is may be asked for as a stream.
func (a *Again) streamable() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.silence.ended == 0 && a.streams < mostStreams
}

// begin ends the watch before, which a reflector may have left open, and
// reports whether a list is due and this is none.
func (a *Again) begin(list bool) (due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endWatch()
	if list {
		a.silence.end(true)
		a.relist, a.coming = false, true
		a.stopTimer()
	} else { // a reflector goes on only with a list that it took
		a.isWhole()
		a.relist = a.relist || a.isAnother()
	}
	return a.relist
}

// asksAnew is called before all there is is asked for, from its beginning on.
func (a *Again) asksAnew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.moves != nil {
		a.moved = a.moves()
	}
}

// isAnother reports whether the API server is another one than all there is was asked of. The lock is held.
func (a *Again) isAnother() bool { return a.moves != nil && a.moves() != a.moved }

// isWhole notes that all there is has come, where it was asked for.
func (a *Again) isWhole() {
	if a.coming {
		a.coming, a.streams, a.whole = false, 0, time.Now()
	}
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
func (a *Again) After(pause time.Duration) { a.after(pause, func() bool { return true }) }

// Late is After, for who waits for a word: not if by then all was listed, or is about to be, however
// slowly that comes. To end a stream that comes would have it begin with nothing, for ever.
func (a *Again) Late(pause time.Duration) {
	asked := time.Now()
	a.after(pause, func() bool {
		if a.whole.After(asked) || a.coming && !a.silence.stalls() {
			return false
		}
		if a.coming {
			a.streams = mostStreams // the next one may be as slow
		}
		return true
	})
}

func (a *Again) after(pause time.Duration, still func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopTimer()
	a.timer = time.AfterFunc(pause+rand.N(pause/5+1), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if still() {
			a.listAnew()
		}
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
