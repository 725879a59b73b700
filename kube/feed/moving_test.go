package feed

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// With the address of an API server of another cluster all is listed there, also by watches that were not
// open just then, as where the one before is away: by its versions they would go on with half of each.
func TestWatchesThatAreNotOpenAreListedElsewhere(t *testing.T) {
	t.Parallel()
	one, two := cluster(t), cluster(t)
	putService(t, two, "new", "10.96.0.3")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, one.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kube.Connect(path, "test", kube.Rate{QPS: 1000, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	f := followBy(t, c, two, retry)
	f.until("kubernetes(1) a 10.96.0.0/16", contents)
	putService(t, one, "old", "10.96.0.2") // a watch that told nothing is followed by a list anyhow
	f.until("kubernetes(1) old(0) a 10.96.0.0/16", contents)
	// By now both have the same version.
	refused := make(chan bool, 1000)
	one.Hook(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		if r.URL.Path == "/api/v1/services" {
			select {
			case refused <- true:
			default:
			}
		}
		apitest.Fail(w, http.StatusTooManyRequests, "TooManyRequests") // after which a watch is tried again
	})
	one.EndWatches()
	<-refused
	if err := os.WriteFile(path, two.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	f.until("kubernetes(1) new(0) a 10.96.0.0/16", contents)
}
