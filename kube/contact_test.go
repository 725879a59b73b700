package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// An API server that says no is there; one that is not ready, or gone, is not.
func TestReachable(t *testing.T) {
	s := apitest.New(t)
	c := s.Client(t)
	for code, there := range map[int]bool{
		http.StatusOK: true, http.StatusForbidden: true, http.StatusUnauthorized: true, http.StatusInternalServerError: false,
	} {
		s.Hook(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
			if r.URL.Path != "/readyz" {
				t.Errorf("asks for %s", r.URL.Path)
			}
			w.WriteHeader(code)
		})
		if err := c.Reachable(t.Context()); (err == nil) != there {
			t.Errorf("answers %d: %v", code, err)
		}
	}
	s.Close()
	if err := c.Reachable(t.Context()); err == nil {
		t.Error("there, although it is gone")
	}
}

// A node's report differs when its lease was renewed, and is not told from
// clocks.
func TestNodeReport(t *testing.T) {
	s := apitest.New(t)
	c := s.Client(t)
	if _, err := c.NodeReport(t.Context(), "a-1"); err == nil || !strings.Contains(err.Error(), "get lease of node a-1") {
		t.Errorf("without a lease: %v", err)
	}
	renew := func() string {
		s.Put(t, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: kube-node-lease, name: a-1}, spec: {holderIdentity: a-1}}`)
		report, err := c.NodeReport(t.Context(), "a-1")
		if err != nil || report == "" {
			t.Fatalf("%q, %v", report, err)
		}
		return report
	}
	if first := renew(); first == renew() {
		t.Errorf("still %q after the lease was renewed", first)
	}
}
