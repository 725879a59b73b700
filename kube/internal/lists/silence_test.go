package lists

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// listener is a reflector that lists and watches for ever, and what it watches.
type listener struct {
	*Again
	lists   []time.Time
	streams int // lists that it would have had streamed
	watch   *apiwatch.RaceFreeFakeWatcher
}

// step lists, where it is to, and watches.
func (l *listener) step(t *testing.T) {
	yes := true
	if l.opens(t, metav1.ListOptions{}) {
		return
	}
	if l.opens(t, metav1.ListOptions{SendInitialEvents: &yes}) {
		l.streams++
	}
	known := metav1.ListOptions{ResourceVersion: "394", Limit: 500}
	if l.List(&known); known.ResourceVersion != "" {
		t.Errorf("a list is of version %s, which is known, and not of the newest", known.ResourceVersion)
	}
	l.lists = append(l.lists, time.Now())
	l.opens(t, metav1.ListOptions{})
}

func (l *listener) opens(t *testing.T, o metav1.ListOptions) bool {
	w, err := l.Watch(t.Context(), o, l.open)
	if err == nil {
		go func() {
			for range w.ResultChan() {
			}
		}()
	}
	return err == nil
}

func (l *listener) open(context.Context) (apiwatch.Interface, error) {
	l.watch = apiwatch.NewRaceFreeFake()
	return l.watch, nil
}

// follow lets time pass, in which whatever ended is begun again.
func (l *listener) follow(t *testing.T, d, every time.Duration, each func()) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
		synctest.Wait()
		if l.watch == nil || l.watch.IsStopped() {
			l.step(t)
		}
		each()
		synctest.Wait()
	}
}

// A watch that stays open and says nothing is ended, and all is listed, not streamed: after three
// to four minutes, and ever less often where the lists show nothing new. One word, a bookmark too,
// is enough, and then all is as it was.
func TestAWatchThatSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{Again: &Again{}}
		defer l.Rest()
		began := time.Now()
		nothing := func() {}
		l.follow(t, Quiet, time.Second, nothing)
		if len(l.lists) > 0 || !l.Silent().IsZero() {
			t.Fatalf("listed %d times within %s, silent since %v", len(l.lists), Quiet, l.Silent())
		}
		l.follow(t, 2*time.Hour, time.Second, nothing)
		if l.streams > 0 || !l.Silent().Equal(began) {
			t.Errorf("%d lists were to be streamed; silent since %v, want %v", l.streams, l.Silent(), began)
		}
		last, at := began, Quiet
		for i, listed := range l.lists {
			if gap := listed.Sub(last); gap < at || gap > at+spread+2*time.Second {
				t.Errorf("list %d came after %s, want %s and up to %s more", i, gap, at, spread)
			}
			last, at = listed, min(2*at, LongestQuiet)
		}
		if n := len(l.lists); n < 8 || n > 12 {
			t.Errorf("listed %d times in two hours", n)
		}
		bookmark := func() { l.watch.Action(apiwatch.Bookmark, &metav1.Status{}) }
		l.follow(t, time.Second, time.Second, bookmark) // a list may be due just then
		before := len(l.lists)
		l.follow(t, time.Hour, time.Minute, bookmark)
		if n := len(l.lists) - before; n > 0 || !l.Silent().IsZero() {
			t.Errorf("with a bookmark a minute listed %d times, silent since %v", n, l.Silent())
		}
		l.follow(t, Quiet+spread+3*time.Second, time.Second, nothing)
		if n := len(l.lists) - before; n != 1 {
			t.Errorf("silent again: listed %d times, want once", n)
		}
		l.News()
		l.follow(t, Quiet+spread+3*time.Second, time.Second, nothing)
		if n := len(l.lists) - before; n != 2 {
			t.Errorf("a list showed something new: listed %d times, want twice", n)
		}
	})
}

// A watch that is to tell first all there is, and does not begin, is ended soon, for nothing is
// known before that; one that has begun may be as quiet as others.
func TestAStreamThatDoesNotBegin(t *testing.T) {
	yes := true
	first := metav1.ListOptions{SendInitialEvents: &yes}
	for name, tc := range map[string]struct {
		begins      bool
		least, most time.Duration
	}{"nothing comes": {false, Begins, Begins + Begins/4}, "it begins": {true, Begins/2 + Quiet, Begins/2 + Quiet + spread}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := listener{Again: &Again{}}
				start := time.Now()
				if !l.opens(t, first) {
					t.Fatal("it is not opened")
				}
				time.Sleep(Begins / 2)
				if tc.begins {
					l.watch.Add(&metav1.PartialObjectMetadata{})
				}
				for !l.watch.IsStopped() {
					time.Sleep(time.Second)
				}
				if took := time.Since(start); took < tc.least || took > tc.most+time.Second {
					t.Errorf("ended after %s, want %s to %s", took, tc.least, tc.most)
				}
				if l.opens(t, first) {
					t.Error("all is to be streamed again, and not listed")
				}
				l.List(&metav1.ListOptions{})
				if !l.opens(t, metav1.ListOptions{}) {
					t.Error("after the list there is no watch")
				}
				l.Rest()
				l.watch.Stop()
			})
		})
	}
}
