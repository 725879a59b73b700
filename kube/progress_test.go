package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// through is a client of a server, for which the times of progress are so many times as fast.
func through(t *testing.T, times int, serve http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewUnstartedServer(serve)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	transport := server.Client().Transport
	client, err := connect(&rest.Config{Host: server.URL, Transport: &progress{next: transport, hurry: time.Duration(times)}}, "a test", "test", Rate{})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

const nodes = `{"kind":"NodeList","apiVersion":"v1","items":[]}`

// Somebody on the way keeps the connection, and passes nothing on: who asks is told so in time,
// and the next request over the same connection is answered once it gets through.
func TestNobodyWaitsForAnAnswerThatDoesNotCome(t *testing.T) {
	t.Parallel()
	hold := func(r *http.Request) { <-r.Context().Done() }
	for name, mute := range map[string]func(w http.ResponseWriter, r *http.Request){
		"no headers": func(_ http.ResponseWriter, r *http.Request) { hold(r) },
		"half a list": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, nodes[:20])
			_ = http.NewResponseController(w).Flush()
			hold(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var muted atomic.Bool
			muted.Store(true)
			client := through(t, 50, func(w http.ResponseWriter, r *http.Request) {
				if muted.Load() {
					mute(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, nodes)
			})
			ask := map[string]func() error{"a list": func() error {
				_, err := client.Typed.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
				return err
			}}
			if name == "no headers" {
				ask["a watch"] = func() error {
					_, err := client.Typed.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
					return err
				}
			}
			for what, do := range ask {
				begin := time.Now()
				err := do()
				if err == nil || !strings.Contains(err.Error(), "nothing came for") || !isTimeout(err) {
					t.Errorf("%s: %v", what, err)
				}
				t.Logf("%s: told after %s", what, time.Since(begin).Round(time.Millisecond))
			}
			muted.Store(false)
			if err := ask["a list"](); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// A list that comes slowly, and a watch that says nothing for longer than any of these times, go on;
// so does one of which the headers are held back until the first bookmark, as late as an API server sends it.
func TestWhatGoesOnIsNotEnded(t *testing.T) {
	const bookmark = 75 * time.Second
	for path, tc := range map[string]struct{ headers, parts, pause time.Duration }{
		"/api/v1/nodes":                                   {headersWithin - time.Second, 20, bytesWithin - time.Second},
		"/api/v1/nodes?watch=true":                        {bookmark, 2, time.Hour},
		"/api/v1/nodes?watch=true&sendInitialEvents=true": {streamedWithin - time.Second, 2, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			read, write := io.Pipe()
			go func() {
				for range tc.parts {
					time.Sleep(tc.pause)
					fmt.Fprint(write, "part")
				}
				_ = write.Close()
			}()
			p := &progress{next: answering(func() *http.Response {
				time.Sleep(tc.headers)
				return &http.Response{Body: read}
			})}
			resp, err := p.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test"+path, nil))
			if err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(resp.Body)
			if err != nil || len(all) != len("part")*int(tc.parts) {
				t.Errorf("%s: %d bytes, %v", path, len(all), err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Who asks and goes away is told that, and not that nothing came.
func TestWhoGoesAwayIsNotToldOfSlowness(t *testing.T) {
	client := through(t, 1, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "nothing came") {
		t.Errorf("said: %v", err)
	}
}
