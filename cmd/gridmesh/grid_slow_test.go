package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
	path := kubeconfigOf(t, server.URL)
	for _, args := range [][]string{{"grid", "list"}, {"grid", "units", "till"}, {"grid", "history", "till"}, {"grid", "rollback", "till"}} {
		code, _, log := gridmesh(t, append(args, "--kubeconfig", path, "--timeout", "500ms")...)
		if code != 1 || strings.Contains(log, "nothing answers") || !strings.Contains(log, "it is there; give it more time, and see its load and its etcd (--timeout is 500ms)") {
			t.Errorf("%v: code %d: %s", args, code, log)
		}
	}
}
