package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Who is asked to wait for ten minutes is back within ten seconds of an API server that takes
// requests again, and says that it waits; other answers pass as they are.
func TestNobodyHasClientsWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, asked := time.Now(), 0
		p := &patience{next: answering(func() *http.Response {
			asked++
			r := httptest.NewRecorder()
			if time.Since(start) < 3*time.Second {
				r.Header()[retryAfter] = []string{"600", "700"}
				r.WriteHeader(http.StatusTooManyRequests)
			} else {
				r.Header().Set("Content-Type", "application/json")
				fmt.Fprint(r, `{"kind":"NodeList","apiVersion":"v1","items":[]}`)
			}
			return r.Result()
		})}
		client, err := connect(&rest.Config{Host: "http://api.test", Transport: p.next}, "a test", "test", Rate{})
		if err != nil {
			t.Fatal(err)
		}
		log := &strings.Builder{}
		logTo.Store(slog.New(slog.NewTextHandler(log, nil)))
		defer logTo.Store(nil)
		if _, err := client.Typed.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < leastWait*time.Second || took > mostWait*time.Second || asked != 2 {
			t.Errorf("listed after %s, by %d requests", took, asked)
		}
		if !strings.Contains(log.String(), "GET /api/v1/nodes: 429, Retry-After: 600") {
			t.Errorf("the log says %q", log)
		}
	})
}

// What is asked for is bounded whatever it is, and is spread.
func TestForHowLongARequestWaits(t *testing.T) {
	seen := map[int]bool{}
	for range 1000 {
		for asked, want := range map[int][2]int{-5: {1, 1}, 0: {1, 1}, 1: {1, 1}, 4: {4, 4}, 5: {5, 10}, 600: {5, 10}, 1 << 62: {5, 10}} {
			got := waitFor(asked)
			if got < want[0] || got > want[1] {
				t.Fatalf("asked for %d it waits for %d s", asked, got)
			}
			if asked == 600 {
				seen[got] = true
			}
		}
	}
	if len(seen) < 6 {
		t.Errorf("it waits for %v s alone", seen)
	}
}

// An answer that asks for no seconds stays as it is: client-go does not wait for it.
func TestAnswersThatAskForNothing(t *testing.T) {
	for status, asked := range map[int]string{200: "600", 404: "600", 429: "", 503: "Fri, 27 Nov 2026 12:00:00 GMT", 500: "a while"} {
		p := &patience{next: answering(func() *http.Response {
			r := httptest.NewRecorder()
			r.Header().Set(retryAfter, asked)
			r.WriteHeader(status)
			return r.Result()
		})}
		resp, err := p.RoundTrip(httptest.NewRequest(http.MethodGet, "http://api.test/", nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get(retryAfter); got != asked || resp.StatusCode != status {
			t.Errorf("%d, %q became %d, %q", status, asked, resp.StatusCode, got)
		}
	}
}

// answering makes a transport of a function.
type answering func() *http.Response

func (f answering) RoundTrip(*http.Request) (*http.Response, error) { return f(), nil }
