package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// deafServer lists one Node, and says nothing by watches, for ever.
func deafServer(t *testing.T, tainted *atomic.Bool) *Client {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if isWatch(r) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		taints := ""
		if tainted.Load() && r.URL.Query().Get("resourceVersion") == "" { // what it has at hand may be as old as what is known
			taints = fmt.Sprintf(`{"key": %q}`, toBeDeleted)
		}
		fmt.Fprintf(w, `{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}, "spec": {"taints": [%s]}}]}`, taints)
	}))
	t.Cleanup(s.Close)
	c, err := connect(&rest.Config{Host: s.URL}, "a test", "test", Rate{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A watch of the own Node through which nothing comes any more, its end neither, is over some time after that, and
// the Node is listed: so a load balancer hears that it is to go.
func TestAnOwnNodeWhoseWatchIsDeaf(t *testing.T) {
	t.Parallel()
	var tainted atomic.Bool
	n := &ownNode{client: deafServer(t, &tainted), name: "a", hurry: 300} // 5.5 to 10.5 minutes are 1.1 to 2.1 s
	told := make(chan bool, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.follow(ctx, func(leaving bool) { told <- leaving })
	}()
	defer func() { cancel(); <-ended }()
	if <-told {
		t.Error("it is to go at first")
	}
	tainted.Store(true)
	for timeout := time.After(time.Minute); ; {
		select {
		case leaving := <-told:
			if leaving {
				return
			}
		case <-timeout:
			t.Fatal("nobody hears that it is to go")
		}
	}
}

// No watch goes on at another API server than the Node was listed by.
func TestAnOwnNodeOfAnotherAPIServer(t *testing.T) {
	t.Parallel()
	var tainted atomic.Bool
	var moves atomic.Int64
	n := &ownNode{client: deafServer(t, &tainted), name: "a"}
	n.client.moves = moves.Load
	timeout := int64(300)
	for range 2 {
		if _, err := n.list(t.Context(), metav1.ListOptions{ResourceVersion: "7"}); err != nil {
			t.Fatal(err)
		}
		w, err := n.watch(t.Context(), metav1.ListOptions{ResourceVersion: "7", TimeoutSeconds: &timeout})
		if err != nil {
			t.Fatal(err)
		}
		w.Stop()
		moves.Add(1)
		if _, err := n.watch(t.Context(), metav1.ListOptions{ResourceVersion: "7", TimeoutSeconds: &timeout}); !apierrors.IsResourceExpired(err) {
			t.Errorf("it goes on: %v", err)
		}
	}
}
