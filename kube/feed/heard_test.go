package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	stdslices "slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// mute answers a watch, and says nothing for as long as the client keeps it.
func mute(w http.ResponseWriter, r *http.Request) {
	stream(w)
	<-r.Context().Done()
}

// exact reports whether a list is to be of a version, and of no newer one: it has a limit.
func exact(r *http.Request) bool {
	q := r.URL.Query()
	return q.Get("watch") == "" && q.Get("limit") != "" && q.Get("resourceVersion") != "" && q.Get("resourceVersion") != "0" && q.Get("resourceVersionMatch") == ""
}

// Who keeps watches open through which nothing comes, streams of lists neither, is followed by
// lists, and told of until a watch speaks again.
func TestWatchesThatAreDeaf(t *testing.T) {
	t.Parallel()
	s, then := cluster(t), cluster(t)
	var deaf atomic.Bool
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if deaf.Load() && r.URL.Query().Get("watch") != "" {
			mute(w, r)
			return
		}
		if deaf.Load() && exact(r) { // as an API server does, which has the versions of the last minutes
			then.Answer(w, r)
			return
		}
		next(w, r)
	})
	f := New(s.Client(t), slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	f.hurry = 900 // 200 ms for three minutes
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Run(ctx) }()
	t.Cleanup(func() { cancel(); s.Close(); <-ended })
	know := func(name string) {
		t.Helper()
		eventually(t, "Service "+name+" is known", func() bool {
			snap, ok := f.Get()
			return ok && strings.Contains(contents(snap), name+"(")
		})
	}
	know("kubernetes")
	deaf.Store(true)
	s.EndWatches()
	for i := range 3 {
		name := fmt.Sprint("deaf", i)
		putService(t, s, name, fmt.Sprint("10.96.0.", 10+i))
		know(name)
		eventually(t, "all say that they are silent", func() bool { return len(f.Silent()) == len(f.all) })
	}
	deaf.Store(false)
	s.EndWatches()
	i := 100
	eventually(t, "the watch of Nodes speaks", func() bool {
		i++
		s.Put(t, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: n%d}}`, i))
		return !stdslices.Contains(f.Silent(), "nodes")
	})
}

// A watch speaks that had a list or a word since a time, and lately, does not fail, and has no
// list that is held back; watches that say nothing of endpoints are not waited for.
func TestWhoWasNotHeard(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newServiceStore(&now)
	f := s.feed
	f.client = apitest.New(t).Client(t)
	f.all = f.watches()
	want := func(when string, since time.Time, want ...string) {
		t.Helper()
		if got := f.Unheard(since); !stdslices.Equal(got, want) {
			t.Errorf("%s: %v were not heard, want %v", when, got, want)
		}
	}
	all := []string{"services", "endpointslices", "grid-endpointslices", "nodes"}
	began := now.Add(-time.Second)
	want("at first", began, all...)
	if err := s.Replace(serviceList(9), "1"); err != nil {
		t.Fatal(err)
	}
	want("a list", began, all[1:]...)
	for _, watch := range all[1:] {
		f.told(watch)
	}
	want("words of the others", began)
	want("none later", now, all...)
	now = now.Add(speaks + time.Second)
	want("none lately", began, all...)
	for _, watch := range all {
		f.told(watch)
	}
	want("bookmarks", began)
	f.note("nodes", verbList, errors.New("too many requests"))
	f.note("servicecidrs", verbList, errors.New("too many requests"))
	want("one fails", began, "nodes")
	f.note("nodes", verbList, nil)
	if err := s.Replace(serviceList(1), "1"); err != nil {
		t.Fatal(err)
	}
	want("a list is held back", began, "services")
}

// A proxy that ends each watch before its bookmark, which is begun anew with success, leaves nothing
// unheard for good: while somebody waits, what says nothing for 75 s is listed, once, and not
// before; and nobody is for whom nobody waits, nor what fails and so is asked for again already.
func TestWatchesThatAreCutAreListedForWhoWaits(t *testing.T) {
	client := apitest.New(t).Client(t)
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		f := newServiceStore(&now).feed
		f.client, f.now = client, time.Now
		f.all = f.watches()
		for _, w := range f.all {
			f.told(w.name)
		}
		listed := func() (names []string) {
			t.Helper()
			for _, w := range f.all {
				open, err := w.again.Watch(t.Context(), metav1.ListOptions{}, func(context.Context) (apiwatch.Interface, error) { return apiwatch.NewRaceFreeFake(), nil })
				if apierrors.IsResourceExpired(err) {
					names = append(names, w.name)
					w.again.List(&metav1.ListOptions{})
				} else if err == nil {
					open.Stop()
					w.again.Rest() // or it would count as silent
				}
			}
			return names
		}
		wants := func(when string, want ...string) {
			t.Helper()
			time.Sleep(15 * time.Second)
			if got := listed(); !stdslices.Equal(got, want) {
				t.Errorf("%s: %v are listed, want %v", when, got, want)
			}
		}
		time.Sleep(10 * time.Minute)
		wants("nobody waits")
		since := time.Now()
		waits := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				f.Unheard(since)
			}
		}
		waits(speaks - time.Second)
		wants("a bookmark may come yet")
		f.note("nodes", verbList, errors.New("too many requests"))
		all := []string{"services", "endpointslices", "grid-endpointslices"}
		waits(3 * time.Second)
		wants("it is late", all...)
		waits(30 * time.Second)
		wants("it was asked for a moment ago")
		waits(speaks)
		wants("and no list has come", all...)
	})
}
