package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/health/cloud"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHealthAndMetrics(t *testing.T) {
	c := defaults()
	c.healthz, c.metrics = testkit.Free(t), testkit.Free(t)
	var g run.Group
	r := &replica{config: c}
	if err := r.listen(&g, run.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(address, path string) string {
		t.Helper()
		r, err := client.Get("http://" + address + path)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return r.Status + ": " + string(body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g.AddTask("client", func(context.Context) error {
		defer cancel()
		if got := get(c.healthz, "/healthz"); got != "200 OK: ok\n" {
			t.Errorf("/healthz answers %q", got)
		}
		if got := get(c.healthz, "/readyz"); got != "200 OK: ok\n" {
			t.Errorf("/readyz of one that does not lead answers %q", got)
		}
		r.doubts.Set("mirror", grid.ErrNotKnown)
		if got := get(c.healthz, "/readyz"); got != "503 Service Unavailable: not ok: work\n" {
			t.Errorf("/readyz while the mirror is filled answers %q", got)
		}
		if got := get(c.metrics, "/metrics"); !strings.Contains(got, "\ngridmesh_build_info{") {
			t.Errorf("/metrics answers %q", got)
		}
		if got := get(c.healthz, "/metrics"); !strings.HasPrefix(got, "404") { // open to all, metrics are not
			t.Errorf("the health address answers %q at /metrics", got)
		}
		return nil
	})
	if err := g.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestOneAddressIsNotForTwo(t *testing.T) {
	c := defaults()
	c.healthz = testkit.Free(t)
	c.metrics = c.healthz
	var g run.Group
	err := (&replica{config: c}).listen(&g, run.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "metrics: listen on "+c.metrics) {
		t.Errorf("error %v", err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestNoAddressNoListener(t *testing.T) {
	c := defaults()
	c.healthz, c.metrics = "", ""
	var g run.Group
	if err := (&replica{config: c}).listen(&g, run.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	if err := g.Run(t.Context()); err != nil { // nothing in it
		t.Error(err)
	}
}

// A controller without the right to list, or without the CRDs, is not ready,
// and knows which watch it is.
func TestWithoutRightsItIsNotReady(t *testing.T) {
	forbidden := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": %q}`, r.URL.Path+" is forbidden")
	}
	for name, tc := range map[string]struct {
		leaderElect bool
		answers     http.HandlerFunc
		says        string
	}{
		"lists": {false, forbidden, "forbidden"},
		"lease": {true, forbidden, "forbidden"},
		"CRDs":  {false, http.NotFound, "could not find the requested resource"},
	} {
		t.Run(name, func(t *testing.T) {
			leaderElect := tc.leaderElect
			server := httptest.NewServer(tc.answers)
			defer server.Close()
			file := kubeconfigOf(t, server.URL)
			client, err := kube.Connect(file, "test", kube.Rate{QPS: 100, Burst: 100})
			if err != nil {
				t.Fatal(err)
			}
			c := defaults()
			c.installCRDs = false
			r := &replica{config: c, client: client, log: slog.New(slog.DiscardHandler), metrics: grid.NewMetrics(prometheus.NewRegistry())}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			want := "deploymentgrids"
			if leaderElect {
				want = "lease"
			}
			go func() { ended <- r.act(ctx, leaderElect) }()
			for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				if err := r.doubts.Now(); err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), tc.says) {
					break
				}
				if time.Since(begin) > 60*time.Second {
					t.Errorf("not within a minute: a doubt about %s; there is: %v", want, r.doubts.Now())
					break
				}
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// Nodes are kept, too, while the API server does not take the grids' CRDs, and refuses that of the
// tables; that their Leases are refused is a doubt.
func TestNodeHealthDoesNotWaitForGrids(t *testing.T) {
	nodes := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/nodes" {
			once.Do(func() { close(nodes) })
		}
		if strings.HasSuffix(r.URL.Path, ".superedge.io") {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": %q}`, r.URL.Path+" is forbidden")
	}))
	defer server.Close()
	r := replicaOf(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.act(ctx, false) }()
	select {
	case <-nodes:
	case <-time.After(time.Minute):
		t.Error("a minute later nobody asked for Nodes")
	}
	isDoubted(t, r.unheard.Now, "a doubt about Leases", "leases")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// That an API server refuses the grids' CRDs ends nothing: nodes are kept, and the fault is a doubt.
func TestRefusedCRDsEndNothing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422, "message": %q}`, r.URL.Path+" is invalid")
	}))
	defer server.Close()
	r := replicaOf(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.act(ctx, false) }()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := r.doubts.Now()
		if err != nil && strings.Contains(err.Error(), "CRDs: install CRD") && strings.Contains(err.Error(), "node health: install CRD") && len(ended) == 0 {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Errorf("not within a minute: doubts about both kinds; there is: %v", err)
			break
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	case <-time.After(time.Second): // what was refused has been told by then
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A replica that has not heard of the API server yet is not ready: where no proxy
// serves its node its dial fails after half a minute at the earliest.
func TestNotReadyBeforeTheFirstAnswer(t *testing.T) {
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		select {
		case <-answer:
			w.WriteHeader(http.StatusNotFound)
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	client, err := kube.Connect(kubeconfigOf(t, server.URL), "test", kube.Rate{QPS: 100, Burst: 100})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{config: defaults(), client: client, log: slog.New(slog.DiscardHandler), metrics: grid.NewMetrics(prometheus.NewRegistry())}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.act(ctx, true) }()
	<-asked
	if err := r.doubts.Now(); !errors.Is(err, grid.ErrNotKnown) {
		t.Errorf("the API server has not answered, and the doubts are: %v", err)
	}
	cancel()
	close(answer)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// kubeconfigOf is a file that names a server.
func kubeconfigOf(t *testing.T, url string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: %q}}]}`, url), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Without a token nobody reads the metrics that others can reach, and nobody
// without TLS.
func TestSecureMetrics(t *testing.T) {
	file := kubeconfigOf(t, "http://127.0.0.1:1")
	client, err := kube.Connect(file, "test", kube.Rate{QPS: 100, Burst: 100})
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	c.healthz, c.metrics, c.secure = "", "", testkit.Free(t)
	var g run.Group
	if err := (&replica{config: c, client: client}).listen(&g, run.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g.AddTask("client", func(ctx context.Context) error {
		defer cancel()
		asker := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // its certificate is its own
		for _, tc := range []struct {
			scheme, token string
			want          int
		}{{"http", "", http.StatusBadRequest}, {"https", "", http.StatusUnauthorized}, {"https", "x", http.StatusServiceUnavailable}} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, tc.scheme+"://"+c.secure+"/metrics", http.NoBody)
			if err != nil {
				t.Error(err)
				continue
			}
			if tc.token != "" {
				r.Header.Set("Authorization", "Bearer "+tc.token)
			}
			answer, err := asker.Do(r)
			if err != nil {
				t.Error(err)
				continue
			}
			if answer.Body.Close(); answer.StatusCode != tc.want {
				t.Errorf("%s, token %q: %s, want %d", tc.scheme, tc.token, answer.Status, tc.want)
			}
		}
		return nil
	})
	if err := g.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	c.secure, c.tls.Cert, c.tls.Key = testkit.Free(t), "/no/such.crt", "/no/such.key"
	if err := (&replica{config: c, client: client}).listen(&run.Group{}, run.NewRegistry()); err == nil || !strings.Contains(err.Error(), "--secure-metrics-bind-address") {
		t.Errorf("without its certificate: %v", err)
	}
}

// isDoubted waits until a doubt is told, in words.
func isDoubted(t *testing.T, now func() error, what string, words ...string) {
	t.Helper()
	told := func(err error) bool {
		return err != nil && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(err.Error(), word) })
	}
	for begin := time.Now(); !told(now()); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Errorf("not within a minute: %s; there is: %v", what, now())
			return
		}
	}
}

// replicaOf asks a server, and keeps grids and nodes.
func replicaOf(t *testing.T, url string) *replica {
	t.Helper()
	client, err := kube.Connect(kubeconfigOf(t, url), "test", kube.Rate{QPS: 100, Burst: 100})
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	c.health.UnitKey = "unit"
	registry := prometheus.NewRegistry()
	return &replica{config: c, client: client, log: slog.New(slog.DiscardHandler), metrics: grid.NewMetrics(registry), shields: cloud.NewMetrics(registry)}
}
