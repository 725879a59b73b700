package lists

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// How long a watch may say nothing. An API server sends a bookmark about once a minute, and so one
// that is silent for Quiet may be deaf: something on the way keeps the connection alive, and nothing
// comes through. It is ended then, and everything is listed, in the way that asks for no stream. Where
// that shows nothing new either the next silence may be twice as long, up to LongestQuiet: the API
// server may be one that sends no bookmarks, and has nothing to say.
const (
	Quiet        = 3 * time.Minute
	LongestQuiet = 4 * Quiet
	// Begins is for how long a watch may say nothing that is to tell first all there is, and has
	// not begun: who waits for that knows nothing, and an API server begins within a few seconds.
	Begins = 20 * time.Second
	// stalled is how old the last word may be of a stream of all there is that is about to tell the
	// rest: over a poor link a large object takes its time.
	stalled = 75 * time.Second
	// spread is up to how much longer it may be, by chance: many nodes may sit behind the same.
	spread = Quiet / 3
)

// silence is what watches have not said. The lock of its Again is held.
type silence struct {
	told   time.Time     // by a watch, the last; or when the first of them was opened
	since  time.Time     // of the watch that is open: since when it says nothing, and those before it, while they were open
	before time.Duration // for how long those before have said nothing, since the last list
	ended  int           // how many were ended in a row for it
	slower int           // how many lists for it in a row have shown nothing new
	most   time.Duration // how long that may be
	timer  *time.Timer   // of the watch that is open
	open   *tap          // nil for none
	begins bool          // it is to tell first all there is, and has said nothing yet
	hurry  time.Duration // how many times as fast all of that is; 0 for once
}

// Silent is since when no watch has said anything, where the last was ended for it; zero where one speaks.
func (a *Again) Silent() (since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silence.ended > 0 {
		since = a.silence.told
	}
	return since
}

// Hurry has watches count as silent so many times as fast: for tests on real sockets.
func (a *Again) Hurry(times int) { a.silence.hurry = time.Duration(times) }

// News notes that a list showed something else than was known: what no watch had said, if those were silent.
func (a *Again) News() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silence.slower > 0 {
		a.silence.faster()
	}
}

// faster has the watch that is open be silent no longer than any other.
func (s *silence) faster() {
	s.slower = 0
	if s.open != nil {
		s.set()
		s.timer.Reset(s.left())
	}
}

// set decides for how long a watch may say nothing.
func (s *silence) set() {
	if s.begins {
		s.most = (Begins + rand.N(Begins/4)) / max(1, s.hurry)
		return
	}
	s.most = (min(Quiet<<min(s.slower, 10), LongestQuiet) + rand.N(spread)) / max(1, s.hurry)
}

func (s *silence) left() time.Duration { return max(0, s.most-time.Since(s.since)) }

// stalls reports whether the watch that is open has said nothing for so long that its next word is
// not worth waiting for. A list, or what is only asked for, does not: it ends by itself (kube/progress.go).
func (s *silence) stalls() bool {
	return s.open != nil && time.Since(s.since) > stalled/max(1, s.hurry)
}

// listen begins to wait for what a watch says, which may be to tell first all there is. The lock is held.
func (a *Again) listen(w apiwatch.Interface, begins bool) apiwatch.Interface {
	s, now := &a.silence, time.Now()
	if s.told.IsZero() {
		s.told = now
	}
	t := newTap(w, a.word)
	s.open, s.since, s.begins = t, now.Add(-s.before), begins
	s.set()
	s.timer = time.AfterFunc(s.left(), func() { a.heardNothing(t) })
	return t
}

// heardNothing ends a watch that has said nothing for as long as it may, and waits on for another.
func (a *Again) heardNothing(of *tap) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.silence
	if s.open != of {
		return // it was ended meanwhile
	}
	if left := s.left(); left > 0 {
		s.timer.Reset(left)
		return
	}
	s.ended++
	s.slower++ // unless the list shows something new
	a.listAnew()
}

// word notes that a watch said something.
func (a *Again) word(e apiwatch.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if endsInitial(e) {
		a.isWhole()
	}
	s, now := &a.silence, time.Now()
	s.told, s.since, s.before, s.ended = now, now, 0, 0
	if s.begins || s.slower > 0 {
		s.begins = false
		s.faster()
	}
}

// endsInitial reports whether an event is the bookmark after all there is.
func endsInitial(e apiwatch.Event) bool {
	if e.Type != apiwatch.Bookmark {
		return false
	}
	m, err := meta.Accessor(e.Object)
	return err == nil && m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// end is called before a watch is ended; listed, where all is listed instead.
func (s *silence) end(listed bool) {
	if s.open != nil {
		s.timer.Stop()
		s.open, s.begins, s.before = nil, false, time.Since(s.since)
	}
	if listed {
		s.before = 0
	}
}

// tap hands on what a watch says, and tells of it.
type tap struct {
	apiwatch.Interface
	out  chan apiwatch.Event
	done chan struct{}
	stop sync.Once
}

func newTap(w apiwatch.Interface, word func(apiwatch.Event)) *tap {
	t := &tap{Interface: w, out: make(chan apiwatch.Event), done: make(chan struct{})}
	go t.hand(word)
	return t
}

// hand ends with the watch, which Stop ends.
func (t *tap) hand(word func(apiwatch.Event)) {
	defer close(t.out)
	for e := range t.Interface.ResultChan() {
		if e.Type != apiwatch.Error { // which says that it tells nothing
			word(e)
		}
		select {
		case t.out <- e:
		case <-t.done:
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (t *tap) ResultChan() <-chan apiwatch.Event { return t.out }

// Stop implements watch.Interface.
func (t *tap) Stop() {
	t.stop.Do(func() { close(t.done) })
	t.Interface.Stop()
}
