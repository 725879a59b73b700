package typed_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// Pods of now are read from etcd, a page at a time; cached ones are not.
func TestPodsOn(t *testing.T) {
	s := apitest.New(t)
	var mu sync.Mutex
	var asked []string
	s.Hook(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { // it knows no pods
		q := r.URL.Query()
		mu.Lock()
		asked = append(asked, q.Get("fieldSelector")+" version "+q.Get("resourceVersion")+" limit "+q.Get("limit"))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []}`)
	})
	for _, f := range []typed.Freshness{typed.Now, typed.Cached} {
		if err := typed.PodsOn(t.Context(), s.Client(t), "a-1", f, func(*corev1.Pod) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"spec.nodeName=a-1 version  limit 100", "spec.nodeName=a-1 version 0 limit "}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}
