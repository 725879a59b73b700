package feed

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

const servicesPath = "/api/v1/services"

// only has a hook answer the requests for Services of ours.
func only(hook apitest.Hook) apitest.Hook {
	return func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if r.URL.Path != servicesPath || !strings.HasPrefix(r.URL.Query().Get("labelSelector"), "!") {
			next(w, r)
			return
		}
		hook(w, r, next)
	}
}

func isWatch(r *http.Request) bool {
	q := r.URL.Query()
	return q.Get("watch") != "" && q.Get("sendInitialEvents") == ""
}

// stream answers a watch with lines, and ends it.
func stream(w http.ResponseWriter, lines ...string) {
	w.Header().Set("Content-Type", "application/json")
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
}

const (
	expired  = `{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}}`
	bookmark = `{"type": "BOOKMARK", "object": {"kind": "Service", "apiVersion": "v1", "metadata": {"resourceVersion": "%d"}}}`
)

// An API server of which no watch lasts is followed by its lists, or by its
// watches, and is not asked as fast as it answers.
func TestWatchesThatDoNotLast(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		watch apitest.Hook
		lists bool // there are no watch-lists
	}{
		"410": {watch: func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			apitest.Fail(w, http.StatusGone, "Expired")
		}},
		"410, after lists": {func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			apitest.Fail(w, http.StatusGone, "Expired")
		}, true},
		"410 in the watch": {func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { stream(w, expired) }, true},
		"a bookmark and its end": {func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			stream(w, fmt.Sprintf(bookmark, 1))
		}, true},
		"half an event": {func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			stream(w, fmt.Sprintf(bookmark, 1), `{"type": "ADDED", "object": {"kind": "Serv`)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t)
			var ends atomic.Bool
			ends.Store(true)
			s.Hook(only(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
				switch {
				case isWatch(r) && ends.Load():
					tc.watch(w, r, next)
				case tc.lists:
					noWatchLists(w, r, next)
				default:
					next(w, r)
				}
			}))
			f := followWith(t, s, retry) // it is about how long they are
			f.until("kubernetes(1) a 10.96.0.0/16", contents)
			s.EndWatches()
			begin := time.Now()
			time.Sleep(2 * time.Second) // it is about a rate
			requests := s.Count("GET "+servicesPath) + s.Count("WATCH "+servicesPath) + s.Count("WATCHLIST "+servicesPath)
			if most := 60 + int(10*time.Since(begin).Seconds()); requests > most {
				t.Errorf("%d requests in %s", requests, time.Since(begin))
			}
			if snap, _ := f.Get(); contents(snap) != "kubernetes(1) a 10.96.0.0/16" {
				t.Errorf("left is %s", contents(snap))
			}
			ends.Store(false)
			putService(t, s, "web", "10.96.0.2")
			f.until("kubernetes(1) web(0) a 10.96.0.0/16", contents)
		})
	}
}

// Bookmarks alone say that the API server is there, and nothing else.
func TestOnlyBookmarks(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	var told atomic.Int64
	s.Hook(only(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if !isWatch(r) {
			noWatchLists(w, r, next)
			return
		}
		for r.Context().Err() == nil {
			stream(w, fmt.Sprintf(bookmark, 100+told.Add(1)))
			time.Sleep(10 * time.Millisecond)
		}
	}))
	f := follow(t, s)
	f.until("kubernetes(1) a 10.96.0.0/16", contents)
	contact, n := f.Health().LastContact, told.Load()
	eventually(t, "bookmarks are contact", func() bool { return told.Load() > n+20 && f.Health().LastContact.After(contact) })
	select {
	case <-f.wake:
		t.Error("a bookmark is a snapshot")
	default:
	}
	if h := f.Health(); h.Err != "" || len(h.Held) > 0 {
		t.Errorf("its health says %+v", h)
	}
}

// Events that come twice, late, of nothing that is known, or of another kind, end
// in what was told last; and a list in the truth.
func TestEventsOutOfOrder(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	event := func(kind, name, ip string, version int) string {
		return fmt.Sprintf(`{"type": %q, "object": {"kind": "Service", "apiVersion": "v1", "metadata": {"namespace": "default", "name": %q, "resourceVersion": "%d"}, "spec": {"clusterIP": %q}}}`, kind, name, version, ip)
	}
	var odd, expired atomic.Bool
	odd.Store(true)
	end := make(chan struct{})
	s.Hook(only(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		switch {
		case !isWatch(r):
			noWatchLists(w, r, next)
		case odd.Load():
			stream(w,
				event("ADDED", "web", "10.96.0.2", 50), event("ADDED", "web", "10.96.0.2", 50), // twice
				event("MODIFIED", "web", "10.96.0.3", 52), event("MODIFIED", "web", "10.96.0.4", 51), // the later is older
				event("DELETED", "nobody", "10.96.0.9", 60), event("DELETED", "nobody", "10.96.0.9", 60),
				event("MODIFIED", "late", "10.96.0.5", 61), // never added
				event("ADDED", "gone", "10.96.0.6", 62), event("DELETED", "gone", "10.96.0.6", 62), event("DELETED", "gone", "10.96.0.6", 62),
				`{"type": "ADDED", "object": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "z", "resourceVersion": "63"}}}`,
				event("ADDED", "last", "10.96.0.7", 65))
			select {
			case <-end:
			case <-r.Context().Done():
			}
		case expired.CompareAndSwap(false, true):
			apitest.Fail(w, http.StatusGone, "Expired")
		default:
			next(w, r)
		}
	}))
	f := follow(t, s)
	snap := f.until("kubernetes(1) last(0) late(0) web(0) a 10.96.0.0/16", contents)
	for key, e := range snap.Services.All() {
		if key.Name == "web" && e.Service.ClusterIPs[0].String() != "10.96.0.4" {
			t.Errorf("web is at %s, told last was 10.96.0.4", e.Service.ClusterIPs[0])
		}
	}
	odd.Store(false)
	putService(t, s, "web", "10.96.0.2")
	close(end)
	f.until("kubernetes(1) web(0) a 10.96.0.0/16", contents)
}
