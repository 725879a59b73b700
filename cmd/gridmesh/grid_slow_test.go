package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An API server that is there and does not tell its objects in time is not told as
// one that is not there.
func TestSlowIsNotAbsent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			fmt.Fprint(w, "ok")
			return
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '%s'}}]}", server.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"grid", "list"}, {"grid", "units", "till"}, {"grid", "history", "till"}, {"grid", "rollback", "till"}} {
		code, _, log := gridmesh(t, append(args, "--kubeconfig", path, "--timeout", "500ms")...)
		if code != 1 || strings.Contains(log, "nothing answers") || !strings.Contains(log, "it is there; give it more time, and see its load and its etcd (--timeout is 500ms)") {
			t.Errorf("%v: code %d: %s", args, code, log)
		}
	}
}
