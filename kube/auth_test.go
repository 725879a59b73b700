package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// reviewer answers reviews as an API server: of tokens it knows "reader", who may
// get /metrics, and "pod", who may not.
type reviewer struct {
	t     *testing.T
	asked atomic.Int64
	away  atomic.Bool
	slow  chan struct{} // reviews of "slow…" wait for it to close
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
		o.Status.Authenticated = strings.HasPrefix(o.Spec.Token, "reader") || o.Spec.Token == "pod"
		if strings.HasPrefix(o.Spec.Token, "slow") {
			<-v.slow
		}
		o.Status.User.Username = o.Spec.Token
	case *authorizationv1.SubjectAccessReview:
		o.APIVersion, o.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
		path := o.Spec.NonResourceAttributes
		o.Status.Allowed = strings.HasPrefix(o.Spec.User, "reader") && path.Path == "/metrics" && path.Verb == "get"
	default:
		v.t.Errorf("asked for %T", obj)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj)
}

func behindAuth(t *testing.T) (*reviewer, func(path, authorization string) int) {
	t.Helper()
	v, get := behindAuthFrom(t)
	return v, func(path, authorization string) int {
		t.Helper()
		return get("10.244.1.1", path, authorization)
	}
}

// behindAuthFrom is a handler that several addresses ask.
func behindAuthFrom(t *testing.T) (*reviewer, func(from, path, authorization string) int) {
	t.Helper()
	s, v := apitest.New(t), &reviewer{t: t, slow: make(chan struct{})}
	s.Hook(v.answer)
	g := kube.NewDelegatingAuth(s.Client(t), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }))
	return v, func(from, path, authorization string) int {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.RemoteAddr = from + ":40000"
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
func TestDelegatingAuthAsksTheAPIServer(t *testing.T) {
	v, get := behindAuth(t)
	for _, tc := range []struct {
		path, authorization string
		want                int
	}{
		{"/metrics", "", http.StatusUnauthorized},
		{"/metrics", "Basic cmVhZGVyOg==", http.StatusUnauthorized},
		{"/metrics", "Bearer ", http.StatusUnauthorized},
		{"/metrics", "Bearer unknown", http.StatusUnauthorized},
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
func TestDelegatingAuthIsNoWayToTheAPIServer(t *testing.T) {
	v, get := behindAuth(t)
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
	v2, get2 := behindAuth(t)
	v2.away.Store(true)
	if got := get2("/metrics", "Bearer reader"); got != http.StatusServiceUnavailable {
		t.Errorf("without the API server: %d", got)
	}
}

// Whoever guesses tokens shuts nobody else out: neither a newcomer, nor, from
// however many addresses, one who was let in before and has a new token.
func TestGuessesShutNobodyOut(t *testing.T) {
	_, get := behindAuthFrom(t)
	const scraper, newcomer = "10.244.1.1", "10.244.1.2"
	if got := get(scraper, "/metrics", "Bearer reader"); got != http.StatusOK {
		t.Fatalf("%d", got)
	}
	guess := func(from string) int { return get(from, "/metrics", "Bearer guess"+from) }
	for i := range 100 {
		get("10.244.9.9", "/metrics", "Bearer guess"+strings.Repeat("x", i))
	}
	if got := get(newcomer, "/metrics", "Bearer reader-2"); got != http.StatusOK {
		t.Errorf("one address guesses, and a newcomer gets %d", got)
	}
	turned := 0
	for i := range 400 { // more addresses than are kept
		if guess(fmt.Sprintf("10.244.%d.%d", 16+i/200, i%200)) == http.StatusTooManyRequests {
			turned++
		}
	}
	if turned < 300 {
		t.Errorf("of 400 addresses %d were turned away", turned)
	}
	if got := get(scraper, "/metrics", "Bearer reader-3"); got != http.StatusOK {
		t.Errorf("all guess, and a token that is new gets %d", got)
	}
	if got := get(newcomer, "/metrics", "Bearer "+strings.Repeat("x", 20<<10)); got != http.StatusUnauthorized {
		t.Errorf("20 KiB: %d", got)
	}
}

// Who is known waits for no review of an unknown token, however slow the API server is.
func TestStrangersDelayNobody(t *testing.T) {
	v, get := behindAuthFrom(t)
	if got := get("10.244.1.1", "/metrics", "Bearer reader"); got != http.StatusOK {
		t.Fatalf("%d", got)
	}
	asked := v.asked.Load()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		get("10.244.9.9", "/metrics", "Bearer slow")
	}()
	wait.Eventually(t, func() error {
		if v.asked.Load() == asked {
			return errors.New("the review of the unknown token has not begun")
		}
		return nil
	})
	if got := get("10.244.1.1", "/metrics", "Bearer reader-2"); got != http.StatusOK {
		t.Errorf("behind the review of an unknown token: %d", got)
	}
	close(v.slow)
	<-ended
}
