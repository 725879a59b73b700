package lists

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/gridmesh/gridmesh/kube"
)

var (
	yes       = true
	streaming = metav1.ListOptions{SendInitialEvents: &yes}
)

// told is the bookmark after all there is.
func told() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
}

// Two streams in a row that end before they have told all there is are followed by a list, and by no
// stream before one was taken; streams that do tell all may be as many as there are.
func TestStreamsThatAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listener{Again: &Again{}}
		first := metav1.ListOptions{ResourceVersion: "0", Limit: 500}
		if l.List(&first); first.ResourceVersion != "0" {
			t.Error("the first list of all is not what an API server has at hand")
		}
		wants := func(when string, o metav1.ListOptions, want bool) {
			t.Helper()
			time.Sleep(time.Minute)
			if got := l.opens(t, o); got != want {
				t.Errorf("%s: opened is %v, want %v", when, got, want)
			}
			synctest.Wait()
		}
		one := func(e apiwatch.EventType) {
			l.watch.Action(e, told())
			synctest.Wait()
			l.watch.Stop()
		}
		for range 2 * mostStreams {
			wants("the one before told all", streaming, true)
			one(apiwatch.Bookmark)
		}
		wants("the one before told all", streaming, true)
		one(apiwatch.Added)
		wants("one was cut", streaming, true)
		l.watch.Action(apiwatch.Bookmark, &metav1.PartialObjectMetadata{}) // any
		one(apiwatch.Added)
		wants("two were cut", streaming, false)
		first = metav1.ListOptions{ResourceVersion: "0", Limit: 500}
		if l.List(&first); first.ResourceVersion != "" {
			t.Error("it is listed as one answer: of version 0 an API server gives no pages")
		}
		l.List(&metav1.ListOptions{Limit: 500})
		wants("a list has failed", streaming, false)
		l.List(&metav1.ListOptions{Limit: 500})
		l.List(&metav1.ListOptions{Limit: 500, Continue: "2"})
		wants("a list was taken", metav1.ListOptions{}, true)
		l.watch.Stop()
		wants("all is to be told anew", streaming, true)
		l.watch.Stop()
		l.Rest()
	})
}

// Who waits for a word has nothing ended that is about to tell all there is, however slowly, nor
// listed what was listed meanwhile; a stream that stalls is ended, and a list asked for.
func TestALateListEndsNothingThatComes(t *testing.T) {
	const late = 10 * time.Second
	soon := late + late/5 + time.Second
	for name, tc := range map[string]struct {
		do    func(t *testing.T, l *listener)
		lists bool
	}{
		"a watch that says nothing": {func(t *testing.T, l *listener) {
			l.opens(t, metav1.ListOptions{})
			l.Late(late)
			time.Sleep(soon)
		}, true},
		"a list of which pages come": {func(t *testing.T, l *listener) {
			for _, page := range []string{"", "2"} {
				l.List(&metav1.ListOptions{Limit: 500, Continue: page})
				time.Sleep(10 * time.Minute)
				l.Late(late)
				time.Sleep(soon)
			}
			l.opens(t, metav1.ListOptions{})
		}, false},
		"a list that is taken meanwhile": {func(t *testing.T, l *listener) {
			l.List(&metav1.ListOptions{Limit: 500})
			l.Late(late)
			time.Sleep(late / 2)
			l.opens(t, metav1.ListOptions{})
			time.Sleep(soon)
		}, false},
		"a stream that goes on": {func(t *testing.T, l *listener) {
			l.opens(t, streaming)
			for range 10 {
				l.watch.Add(told())
				synctest.Wait()
				l.Late(late)
				time.Sleep(stalled - time.Second)
			}
		}, false},
		"a stream that told all meanwhile": {func(t *testing.T, l *listener) {
			l.opens(t, streaming)
			l.Late(late)
			time.Sleep(late / 2)
			l.watch.Action(apiwatch.Bookmark, told())
			time.Sleep(soon)
		}, false},
		"a stream that stalls": {func(t *testing.T, l *listener) {
			l.opens(t, streaming)
			l.watch.Add(told())
			synctest.Wait()
			time.Sleep(stalled)
			l.Late(late)
			time.Sleep(soon)
			if l.opens(t, streaming) {
				t.Error("it is streamed anew, and not listed")
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := listener{Again: &Again{}}
				tc.do(t, &l)
				synctest.Wait()
				if ended := l.watch.IsStopped(); ended != tc.lists {
					t.Errorf("the watch has ended is %v, want %v", ended, tc.lists)
				}
				l.watch.Stop()
				l.Rest()
			})
		})
	}
}

// An API server, or who is before it, that takes no version has nobody ask as fast as it answers, and
// lists are asked for beside: client-go asks for a stream again at once, for ever.
func TestVersionsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, gone := &Again{}, apierrors.NewResourceExpired("410")
		asked, listed := 0, 0
		refuse := func(context.Context) (apiwatch.Interface, error) {
			if asked++; asked > 1000 {
				t.Fatal("it is asked without a pause")
			}
			return nil, gone
		}
		for begin := time.Now(); time.Since(begin) < time.Minute; {
			for {
				if _, err := a.Watch(t.Context(), streaming, refuse); !kube.Outdated(err) {
					break // as a reflector does
				}
			}
			a.List(&metav1.ListOptions{Limit: 500})
			listed++
			if _, err := a.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "7"}, refuse); !kube.Outdated(err) {
				t.Fatal(err)
			}
		}
		if asked > 60 || listed < 3 || listed > 30 {
			t.Errorf("%d watches are asked for and %d lists within a minute", asked, listed)
		}
		a.Rest()
	})
}
