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
		verb    verb
		err     error
		fails   string // the longest
		refused bool
		logged  int
	}{
		{"nodes", verbWatch, away, "no route", false, 0},
		{"services", verbWatch, forbidden, "no route", false, 1},
		{"services", verbWatch, forbidden, "no route", false, 1},
		{"nodes", verbWatch, nil, "forbidden", true, 1},
		{"services", verbWatch, away, "no route", false, 1},
		{"services", verbWatch, apierrors.NewUnauthorized("who?"), "who?", true, 2},
		{"services", verbWatch, nil, "", false, 2},
		{"services", verbWatch, forbidden, "forbidden", true, 3},
		{"services", verbList, nil, "forbidden", true, 3},
		{"services", verbWatch, forbidden, "forbidden", true, 3},
		{"services", verbList, forbidden, "forbidden", true, 3}, // of one that may be listed and not watched
		{"services", verbList, nil, "forbidden", true, 3},
		{"services", verbList, away, "forbidden", true, 3},
		{"services", verbWatch, nil, "", false, 3},
	} {
		f.note(step.watch, step.verb, step.err)
		h := f.Health()
		if (h.Err == "") != (step.fails == "") || !strings.Contains(h.Err, step.fails) || h.Refused.IsZero() == step.refused {
			t.Errorf("step %d: %+v", i, h)
		}
		if n := strings.Count(log.String(), "watch="+step.watch); n != step.logged && step.watch == "services" {
			t.Errorf("step %d: %d lines, want %d:\n%s", i, n, step.logged, log.String())
		}
	}
}

// Who was away and refuses when he comes back has refused for that long, and not since he went.
func TestARefusalBeginsWithItself(t *testing.T) {
	f := New(&kube.Client{}, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.now = func() time.Time { return now }
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", nil)
	f.note("services", verbWatch, errors.New("no route"))
	now = now.Add(5 * time.Minute)
	f.note("services", verbWatch, forbidden)
	began := now
	for range 3 {
		if h := f.Health(); !h.Refused.Equal(began) || !h.Since.Equal(began.Add(-5*time.Minute)) {
			t.Errorf("%+v, want refused since %s, and one that fails since before", h, began)
		}
		now = now.Add(time.Second)
		f.note("services", verbWatch, forbidden)
	}
	f.note("services", verbWatch, errors.New("no route"))
	if h, away := f.Health(), began.Add(-5*time.Minute); !h.Refused.IsZero() || !h.Since.Equal(away) {
		t.Errorf("%+v, want one that fails since %s", h, away)
	}
}
