package feed

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/kube"
)

// A refusal is logged once each time that one begins, and what fails the longest is told.
func TestRefusalsAreTold(t *testing.T) {
	var log bytes.Buffer
	f := New(&kube.Client{}, slog.New(slog.NewTextHandler(&log, nil)), NewMetrics(prometheus.NewRegistry()))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.now = func() time.Time { now = now.Add(time.Second); return now }
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", nil)
	away := errors.New("no route")
	for i, step := range []struct {
		watch   string
		err     error
		fails   string // the longest
		refused bool
		logged  int
	}{
		{"nodes", away, "no route", false, 0},
		{"services", forbidden, "no route", false, 1},
		{"services", forbidden, "no route", false, 1},
		{"nodes", nil, "forbidden", true, 1},
		{"services", away, "no route", false, 1},
		{"services", apierrors.NewUnauthorized("who?"), "who?", true, 2},
		{"services", nil, "", false, 2},
		{"services", forbidden, "forbidden", true, 3},
	} {
		f.note(step.watch, step.err)
		h := f.Health()
		if (h.Err == "") != (step.fails == "") || !strings.Contains(h.Err, step.fails) || h.Refused != step.refused {
			t.Errorf("step %d: %+v", i, h)
		}
		if n := strings.Count(log.String(), "watch="+step.watch); n != step.logged && step.watch == "services" {
			t.Errorf("step %d: %d lines, want %d:\n%s", i, n, step.logged, log.String())
		}
	}
}
