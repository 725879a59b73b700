package run

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestChecks(t *testing.T) {
	var broken []string
	fails := func(name string) func() error {
		return func() error {
			if slices.Contains(broken, name) {
				return errors.New("a secret reason")
			}
			return nil
		}
	}
	var c Checks
	h := c.Handler()
	answers := func(path string, code int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != code || w.Body.String() != body {
			t.Errorf("%s with %q broken: %d %q, want %d %q", path, broken, w.Code, w.Body, code, body)
		}
	}
	answers("/readyz", 200, "ok\n")
	c.Live("loop", fails("loop"))
	c.Ready("feed", fails("feed"))
	c.Ready("certificate", fails("certificate"))
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		answers(path, 200, "ok\n")
	}
	broken = []string{"feed", "certificate"}
	answers("/healthz", 200, "ok\n")
	answers("/livez", 200, "ok\n")
	answers("/readyz", 503, "not ok: feed, certificate\n")
	broken = []string{"loop"}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		answers(path, 503, "not ok: loop\n")
	}
	answers("/", 404, "404 page not found\n")
}

func TestMetrics(t *testing.T) {
	r := NewRegistry()
	own := prometheus.NewCounter(prometheus.CounterOpts{Name: "own_total"})
	r.MustRegister(own)
	w := httptest.NewRecorder()
	MetricsMux(r).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`gridmesh_build_info{version="`, "\ngo_goroutines ", "\nprocess_resident_memory_bytes ", "\nown_total 0"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in\n%s", want, w.Body)
		}
	}
}
