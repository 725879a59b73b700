package kube_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// reviewer answers reviews as an API server: of tokens it knows "reader", who may
// get /metrics, and "pod", who may not.
type reviewer struct {
	t     *testing.T
	asked atomic.Int64
	away  atomic.Bool
}

func (v *reviewer) answer(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
	v.asked.Add(1)
	data, err := io.ReadAll(r.Body)
	if err != nil || v.away.Load() {
		apitest.Fail(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		v.t.Error(err)
	}
	switch o := obj.(type) {
	case *authenticationv1.TokenReview:
		o.APIVersion, o.Kind = "authentication.k8s.io/v1", "TokenReview"
		o.Status.Authenticated = o.Spec.Token == "reader" || o.Spec.Token == "pod"
		o.Status.User.Username = o.Spec.Token
	case *authorizationv1.SubjectAccessReview:
		o.APIVersion, o.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
		path := o.Spec.NonResourceAttributes
		o.Status.Allowed = o.Spec.User == "reader" && path.Path == "/metrics" && path.Verb == "get"
	default:
		v.t.Errorf("asked for %T", obj)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj)
}

func guarded(t *testing.T) (*reviewer, func(path, authorization string) int) {
	t.Helper()
	s, v := apitest.New(t), &reviewer{t: t}
	s.Hook(v.answer)
	g := kube.NewGuard(s.Client(t), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }))
	return v, func(path, authorization string) int {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if through := strings.Contains(w.Body.String(), "secret"); through != (w.Code == http.StatusOK) {
			t.Errorf("%d, and the body is %q", w.Code, w.Body)
		}
		return w.Code
	}
}

// Only a token of the cluster whose owner may read the path opens it, and the API
// server is asked once a minute about it.
func TestGuardAsksTheAPIServer(t *testing.T) {
	v, get := guarded(t)
	for _, tc := range []struct {
		path, authorization string
		want                int
	}{
		{"/metrics", "", http.StatusUnauthorized},
		{"/metrics", "Basic cmVhZGVyOg==", http.StatusUnauthorized},
		{"/metrics", "Bearer ", http.StatusUnauthorized},
		{"/metrics", "Bearer stranger", http.StatusUnauthorized},
		{"/metrics", "Bearer pod", http.StatusForbidden},
		{"/other", "Bearer reader", http.StatusForbidden},
		{"/metrics", "Bearer reader", http.StatusOK},
	} {
		if got := get(tc.path, tc.authorization); got != tc.want {
			t.Errorf("%s with %q: %d, want %d", tc.path, tc.authorization, got, tc.want)
		}
	}
	asked := v.asked.Load()
	for range 50 {
		if got := get("/metrics", "Bearer reader"); got != http.StatusOK {
			t.Errorf("again: %d", got)
		}
	}
	if n := v.asked.Load() - asked; n != 0 {
		t.Errorf("asked %d times about what was known", n)
	}
}

// Whoever guesses tokens is turned away before the API server hears of it, and
// those who are known go on; without the API server nobody new comes in.
func TestGuardIsNoWayToTheAPIServer(t *testing.T) {
	v, get := guarded(t)
	if got := get("/metrics", "Bearer reader"); got != http.StatusOK {
		t.Fatalf("%d", got)
	}
	asked, turned := v.asked.Load(), 0
	for i := range 500 {
		if got := get("/metrics", "Bearer guess"+strings.Repeat("x", i)); got == http.StatusTooManyRequests {
			turned++
		}
	}
	if n := v.asked.Load() - asked; n > 100 || turned < 400 {
		t.Errorf("of 500 guesses %d were turned away, the API server was asked %d times", turned, n)
	}
	v.away.Store(true)
	if got := get("/metrics", "Bearer reader"); got != http.StatusOK {
		t.Errorf("one who is known: %d", got)
	}
	v2, get2 := guarded(t)
	v2.away.Store(true)
	if got := get2("/metrics", "Bearer reader"); got != http.StatusServiceUnavailable {
		t.Errorf("without the API server: %d", got)
	}
}
