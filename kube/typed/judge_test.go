package typed_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for begin := time.Now(); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("in a minute it is never so that " + what)
		}
	}
}

// An API server that forgot its Nodes is not believed at once, and is asked again until it
// knows them; what it tells by events is.
func TestAListThatLostItsNodes(t *testing.T) {
	s := apitest.New(t)
	for i := range 4 {
		put(t, s, fmt.Sprint("a-", i), "a", "")
	}
	m := typed.Nodes(s.Client(t), typed.Selection{Labels: "unit=a"}, func(n *corev1.Node) string { return n.Annotations["note"] })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	<-m.Ready()
	m.Changes()
	var looks atomic.Int64
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		looks.Add(1)
		q := r.URL.Query()
		q.Set("labelSelector", "unit=forgotten") // of which there is nothing
		r.URL.RawQuery = q.Encode()
		next(w, r)
	})
	s.EndWatches()
	await(t, "a list is doubted", func() bool { return m.Fault() != nil })
	asked := looks.Load()
	await(t, "it is asked again", func() bool { return looks.Load() > asked })
	if got := m.All(); len(got) != 4 || len(m.Changes()) > 0 {
		t.Errorf("of four are left %v", got)
	}
	s.Hook(nil)
	put(t, s, "a-0", "a", "changed meanwhile")
	await(t, "it is believed again", func() bool { return m.Fault() == nil })
	if got := m.All(); len(got) != 4 || got["a-0"] != "changed meanwhile" {
		t.Errorf("there are %v", got)
	}
	for i := range 3 {
		s.Delete(fmt.Sprint("/api/v1/nodes/a-", i))
	}
	await(t, "what is deleted is gone", func() bool { return len(m.All()) == 1 })
	if got := m.Changes(); !slices.Equal(got, []string{"a-0", "a-1", "a-2"}) {
		t.Errorf("changes: %v", got)
	}
}
