package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// An account without the rights is told so at once, and what to do about it; it
// does not wait for lists that never come.
func TestForbiddenIsSaidAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			fmt.Fprint(w, "ok")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		resource := filepath.Base(r.URL.Path)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "%s is forbidden: the account may not list it"}`, resource)
	}))
	t.Cleanup(server.Close)
	path := kubeconfigOf(t, server.URL)
	for _, args := range [][]string{{"view"}, {"xds"}, {"dns", "web.default"}, {"trace", "--from", "10.0.0.1", "--to", "10.96.0.1:80"}} {
		code, _, log := gridmesh(t, append(args, "--kubeconfig", path, "--timeout", "5s")...)
		for _, want := range []string{"is forbidden", "it does not permit that; give the user or ServiceAccount the rights"} {
			if code != 1 || !strings.Contains(log, want) || strings.Contains(log, "told no whole state") {
				t.Errorf("%v: code %d: %s, want %q", args, code, log, want)
			}
		}
	}
}
