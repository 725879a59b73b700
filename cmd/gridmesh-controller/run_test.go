package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/internal/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// free returns an address on which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestHealthAndMetrics(t *testing.T) {
	c := defaults()
	c.healthz, c.metrics = free(t), free(t)
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
		r.filling.Store(true)
		if got := get(c.healthz, "/readyz"); got != "503 Service Unavailable: not ok: mirror\n" {
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
	c.healthz = free(t)
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
