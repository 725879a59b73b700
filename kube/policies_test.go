package kube_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

func TestNetworkPolicy(t *testing.T) {
	s := apitest.New(t)
	c := s.Client(t)
	if name, _, err := c.NetworkPolicy(t.Context()); name != "" || err != nil {
		t.Errorf("without any: %q, %v", name, err)
	}
	s.Put(t, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: default, name: x}}`)
	if name, _, err := c.NetworkPolicy(t.Context()); name != "default/x" || err != nil {
		t.Errorf("with one: %q, %v", name, err)
	}
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		apitest.Fail(w, http.StatusForbidden, "Forbidden")
	})
	if _, _, err := c.NetworkPolicy(t.Context()); err == nil {
		t.Error("not being told is no error")
	}
}

// A policy that is made later is heard of when it is made.
func TestAwaitNetworkPolicy(t *testing.T) {
	s := apitest.New(t)
	c := s.Client(t)
	_, version, err := c.NetworkPolicy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if name, err := c.AwaitNetworkPolicy(t.Context(), version, 50*time.Millisecond); name != "" || err != nil {
		t.Errorf("while there is none: %q, %v", name, err)
	}
	type told struct {
		name string
		err  error
	}
	heard := make(chan told, 1)
	go func() {
		name, err := c.AwaitNetworkPolicy(t.Context(), version, time.Minute)
		heard <- told{name, err}
	}()
	s.Put(t, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: shop, name: late}}`)
	if got := <-heard; got.name != "shop/late" || got.err != nil {
		t.Errorf("of one that was made: %q, %v", got.name, got.err)
	}
	if name, err := c.AwaitNetworkPolicy(t.Context(), version, time.Minute); name != "shop/late" || err != nil {
		t.Errorf("of one that was made before the watch: %q, %v", name, err)
	}
}

// A watch that is not allowed, or ends, is no word that there is none.
func TestAwaitNetworkPolicyCannotTell(t *testing.T) {
	for what, answer := range map[string]func(w http.ResponseWriter){
		"forbidden":    func(w http.ResponseWriter) { apitest.Fail(w, http.StatusForbidden, "Forbidden") },
		"expired":      func(w http.ResponseWriter) { apitest.Fail(w, http.StatusGone, "Expired") },
		"ends at once": func(http.ResponseWriter) {},
	} {
		s := apitest.New(t)
		s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { answer(w) })
		if name, err := s.Client(t).AwaitNetworkPolicy(t.Context(), "1", time.Minute); err == nil {
			t.Errorf("%s: %q and no error", what, name)
		}
	}
}

// A watch that is never answered takes no longer than one that has nothing to say.
func TestAwaitNetworkPolicyUnanswered(t *testing.T) {
	s := apitest.New(t)
	s.Hook(func(_ http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { <-r.Context().Done() })
	if name, err := s.Client(t).AwaitNetworkPolicy(t.Context(), "1", 100*time.Millisecond); name != "" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}
