package kube_test

import (
	"fmt"
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

// A node's report is later when its lease was renewed, and is not told from
// clocks. The first answer is how it is, and not from a memory that is behind.
func TestNodeReport(t *testing.T) {
	s := apitest.New(t)
	c := s.Client(t)
	if _, err := c.NodeReport(t.Context(), "a-1", 0); err == nil || !strings.Contains(err.Error(), "get lease of node a-1") {
		t.Errorf("without a lease: %v", err)
	}
	const lease = `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: kube-node-lease, name: a-1}, spec: {holderIdentity: a-1}}`
	ask := func(first uint64) uint64 {
		t.Helper()
		report, err := c.NodeReport(t.Context(), "a-1", first)
		if err != nil || report == 0 {
			t.Fatalf("%d, %v", report, err)
		}
		return report
	}
	s.Put(t, lease)
	first := ask(0)
	s.Put(t, lease)
	second := ask(first)
	if second <= first {
		t.Errorf("%d after %d, though the lease was renewed", second, first)
	}
	memory := `"resourceVersion":"1"`
	s.Hook(func(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
		if r.URL.Query().Get("resourceVersion") != "0" {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"kube-node-lease","name":"a-1",%s}}`, memory)
	})
	if again := ask(0); again != second {
		t.Errorf("the first question is answered %d, where the lease is of %d", again, second)
	}
	if again := ask(second); again != 1 {
		t.Errorf("a later question is answered %d, and not from memory", again)
	}
	memory = `"resourceVersion":"x"`
	if _, err := c.NodeReport(t.Context(), "a-1", second); err == nil || !strings.Contains(err.Error(), "resourceVersion is no number") {
		t.Errorf("a version that is none: %v", err)
	}
}
