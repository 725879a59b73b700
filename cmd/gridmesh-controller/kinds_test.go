package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"
)

// Nodes are kept also where an update of the tables' kind fails for ever, as by a webhook that is
// broken: the kind is served as it was.
func TestAnUpdateOfTheTablesKindThatFails(t *testing.T) {
	anUpdateFails(t, "nodetables.gridmesh.io", "/apis/gridmesh.io/v1/namespaces/gridmesh/nodetables", "node health: install CRD")
}

// So are grids carried out.
func TestAnUpdateOfTheGridsKindsThatFails(t *testing.T) {
	anUpdateFails(t, ".superedge.io", "/apis/superedge.io/v1/deploymentgrids", "CRDs: install CRD")
}

// anUpdateFails has kinds of which the name ends so served as they were, and every write refused:
// a path is asked for all the same, and the update stays a doubt.
func anUpdateFails(t *testing.T, kinds, wanted, doubt string) {
	t.Helper()
	asked := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wanted {
			once.Do(func() { close(asked) })
		}
		w.Header().Set("Content-Type", "application/json")
		if dir, name := path.Split(r.URL.Path); r.Method == http.MethodGet && strings.HasSuffix(dir, "/customresourcedefinitions/") && strings.HasSuffix(name, kinds) {
			fmt.Fprintf(w, `{"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": %q}, "spec": {}, "status": {"conditions": [{"type": "Established", "status": "True"}]}}`, name)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500, "message": "failed calling webhook"}`)
	}))
	defer server.Close()
	r := replicaOf(t, server.URL)
	r.try = time.Second
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.act(ctx, false) }()
	select {
	case <-asked:
	case <-time.After(20 * time.Second):
		t.Errorf("20 s later nobody asked for %s", wanted)
	}
	isDoubted(t, r.doubts.Now, "a doubt about the kinds", doubt, "calling webhook")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
