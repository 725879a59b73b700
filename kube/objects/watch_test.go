package objects

import (
	"fmt"
	"net/http"
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
