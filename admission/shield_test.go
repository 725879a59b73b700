package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/internal/run"
)

// shieldOf is a NodeTable.
func shieldOf(data map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": "gridmesh-shield"}, "data": data}
}

// What is told stays while the API server is away, and how long that has been is
// known; what a hanging watch does not tell is asked for.
func TestShieldFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		cluster := newStore()
		registry := prometheus.NewRegistry()
		s := NewShield(cluster, "gridmesh", slog.New(slog.DiscardHandler), NewMetrics(registry))
		if s.Err() == nil || len(s.Until()) != 0 {
			t.Error("it is known before it was asked for")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		cluster.away(errors.New("away"))
		go func() { ended <- s.Run(ctx, nil) }()
		time.Sleep(time.Minute)
		if s.Err() == nil || s.stale(time.Now()) < time.Minute {
			t.Errorf("nothing was told, and it is known (%v), stale for %s", s.Err(), s.stale(time.Now()))
		}
		cluster.away(nil)
		time.Sleep(askEvery)
		synctest.Wait()
		if err := s.Err(); err != nil || len(s.Until()) != 0 || s.stale(time.Now()) > askEvery {
			t.Errorf("there is no table: %v, %v", err, s.Until())
		}
		until := now.Add(time.Hour).Truncate(time.Second)
		cluster.put("NodeTable", shieldOf(map[string]any{"a": until.Format(time.RFC3339), "b": "soon", "c": now.Add(-time.Hour).Format(time.RFC3339), "d": 1}))
		synctest.Wait()
		want := mutate.Shield{"a": until, "c": now.Add(-time.Hour).Truncate(time.Second)}
		if !maps.EqualFunc(s.Until(), want, time.Time.Equal) {
			t.Errorf("shielded are %v, want %v", s.Until(), want)
		}
		expect(t, registry, "gridmesh_admission_shielded_nodes 1", "gridmesh_admission_shield_unread_entries 2")
		cluster.away(errors.New("away"))
		time.Sleep(10 * time.Minute)
		if stale := s.stale(time.Now()); s.Err() != nil || len(s.Until()) != 2 || stale < 10*time.Minute || stale > 11*time.Minute {
			t.Errorf("after an outage %v is known, stale for %s (%v)", s.Until(), stale, s.Err())
		}
		cluster.deaf = true // its watch hangs
		cluster.put("NodeTable", shieldOf(nil))
		cluster.away(nil)
		time.Sleep(askEvery)
		synctest.Wait()
		if len(s.Until()) != 0 {
			t.Errorf("nobody is shielded any more, known is %v", s.Until())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// slow is a store whose API server does not answer who asks it, until it is released.
type slow struct {
	*store
	answer chan struct{}
}

func (s *slow) Live(ctx context.Context, kind, namespace, name string) (map[string]any, error) {
	obj, err := s.store.Live(ctx, kind, namespace, name)
	select {
	case <-s.answer:
		return obj, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// What the watch tells is taken at once, also while the API server is asked and does not answer; an
// answer that is older than that is not.
func TestShieldFollowsWhileItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &slow{newStore(), make(chan struct{})}
		s := NewShield(cluster, "gridmesh", slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, nil) }()
		synctest.Wait() // it asks
		cluster.put("NodeTable", shieldOf(map[string]any{"a": time.Now().UTC().Add(time.Hour).Format(time.RFC3339)}))
		synctest.Wait()
		if len(s.Until()) != 1 {
			t.Errorf("while it asks %v is known", s.Until())
		}
		close(cluster.answer)
		synctest.Wait()
		if len(s.Until()) != 1 {
			t.Errorf("after the answer, which is older, %v is known", s.Until())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Before gridmesh-controller has installed the kind nobody is shielded, and a replica is ready;
// once something was known, an API server that does not serve the kind, as one that starts, ends
// no shield.
func TestShieldWithoutItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newStore()
		unserved := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Group: "gridmesh.io", Resource: "nodetables"}, "gridmesh-shield", "404 page not found", 0, true)
		cluster.away(fmt.Errorf("get: %w", unserved))
		s := NewShield(cluster, "gridmesh", slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
		ctx, cancel := context.WithCancel(t.Context())
		ended, listed := make(chan error), make(chan struct{})
		go func() { ended <- s.Run(ctx, listed) }()
		synctest.Wait()
		if err := s.Err(); err != nil || len(s.Until()) != 0 {
			t.Errorf("the kind is not served: %v, %v", err, s.Until())
		}
		until := time.Now().UTC().Add(time.Hour).Truncate(time.Second)
		cluster.deaf = true
		cluster.put("NodeTable", shieldOf(map[string]any{"a": until.Format(time.RFC3339)}))
		close(listed)
		synctest.Wait()
		if !s.Until()["a"].Equal(until) {
			t.Errorf("it is listed, and shielded are %v", s.Until())
		}
		time.Sleep(10 * askEvery)
		if s.Err() != nil || len(s.Until()) != 1 {
			t.Errorf("the kind is served no more, and shielded are %v (%v)", s.Until(), s.Err())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// expect holds metrics to lines.
func expect(t *testing.T, r prometheus.Gatherer, lines ...string) {
	t.Helper()
	for _, line := range lines {
		name, want, _ := strings.Cut(line, " ")
		if got := fmt.Sprint(value(t, r, name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// value is that of a metric as it is exposed, with its labels; 0 where there is none.
func value(t *testing.T, r prometheus.Gatherer, name string) (v float64) {
	t.Helper()
	w := httptest.NewRecorder()
	run.MetricsHandler(r).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			if _, err := fmt.Sscan(text, &v); err != nil {
				t.Error(err)
			}
		}
	}
	return v
}
