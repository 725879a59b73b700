package objects

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// An API server, or a proxy before it, that ends each watch after its first
// bookmark is not asked as fast as it answers, and what changes is followed.
func TestWatchesThatDoNotLast(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	put(t, s, "web", "spec: {replicas: 1}")
	var watches atomic.Int64
	var lasting atomic.Bool
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "":
			apitest.Fail(w, http.StatusUnprocessableEntity, "Invalid") // lists and watches
		case q.Get("watch") == "" || lasting.Load():
			next(w, r)
		default:
			watches.Add(1)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintln(w, `{"type": "BOOKMARK", "object": {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"resourceVersion": "1"}}}`)
		}
	})
	m := mirrored(t, s)
	changes(t, m)
	begin := time.Now()
	time.Sleep(2 * time.Second) // it is about a rate
	if n, most := watches.Load(), 5+int64(3*time.Since(begin).Seconds()); n == 0 || n > most {
		t.Errorf("%d watches in %s, %d at most", n, time.Since(begin), most)
	}
	lasting.Store(true)
	put(t, s, "db", "spec: {replicas: 1}")
	until(t, "what changes is followed", func() bool { return m.Get("Deployment", "default", "db") != nil })
}

// Who keeps watches open through which nothing comes, streams of lists neither, is followed by lists.
func TestDeafWatches(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	put(t, s, "web", "spec: {replicas: 1}")
	var deaf atomic.Bool
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if !deaf.Load() || r.URL.Query().Get("watch") == "" {
			next(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	m := NewMirror(s.Client(t), []Kind{deployments}, prune)
	m.again["Deployment"].Hurry(900) // 200 ms for three minutes
	run(t, s, m)
	deaf.Store(true)
	s.EndWatches()
	for i := range 3 {
		name := fmt.Sprint("deaf-", i)
		put(t, s, name, "spec: {replicas: 1}")
		until(t, name+" is known", func() bool { return m.Get("Deployment", "default", name) != nil })
	}
}

// An API server without watch-lists is asked for a few objects at a time, and what
// came is pruned before the next: decoded, a child of a grid may have many megabytes.
func TestListsComeInSmallPages(t *testing.T) {
	s := apitest.New(t)
	const all = 2*mirrorPage + 5
	for i := range all {
		put(t, s, fmt.Sprintf("web-%d", i), "spec: {replicas: 1}")
	}
	var sent, pruned atomic.Int64
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "":
			apitest.Fail(w, http.StatusUnprocessableEntity, "Invalid")
			return
		case q.Get("watch") != "":
		default:
			limit, _ := strconv.Atoi(q.Get("limit"))
			if n := sent.Load() - pruned.Load(); n > 0 || q.Get("resourceVersion") == "0" || limit == 0 || limit > mirrorPage {
				t.Errorf("%d objects are asked for, of version %q, and %d are not pruned yet", limit, q.Get("resourceVersion"), n)
			}
			sent.Add(int64(limit))
		}
		next(w, r)
	})
	m := NewMirror(s.Client(t), []Kind{deployments}, func(obj map[string]any) {
		if _, whole := obj["secret"]; whole {
			pruned.Add(1)
		}
		prune(obj)
	})
	run(t, s, m)
	if n := len(changes(t, m)); n != all || pruned.Load() != all {
		t.Errorf("%d objects came, %d were pruned, want %d", n, pruned.Load(), all)
	}
}
