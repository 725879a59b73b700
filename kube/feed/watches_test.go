package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// The label of headless Services comes and goes, and takes a slice from one watch to
// the other: whichever of the two tells first, its endpoints stay.
func TestSlicesMoveBetweenTheirWatches(t *testing.T) {
	const ordinary, grids = "endpointslices", "grid-endpointslices"
	for _, move := range []struct{ from, to string }{{ordinary, grids}, {grids, ordinary}} {
		for what, addsFirst := range map[string]bool{"it comes before it goes": true, "it goes before it comes": false} {
			f := New(cluster(t).Client(t), slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
			stores := map[string]cache.ReflectorStore{}
			for _, w := range f.watches() {
				stores[w.name] = w.store
			}
			was, is := sliceFor(move.from == grids), sliceFor(move.to == grids)
			told := []error{stores[move.from].Add(was)}
			if addsFirst {
				told = append(told, stores[move.to].Add(is), stores[move.from].Delete(is))
			} else {
				told = append(told, stores[move.from].Delete(is), stores[move.to].Add(is))
			}
			if got := contents(f.builder.Build()); got != "[db](1)" {
				t.Errorf("from %s to %s, %s: %q is left", move.from, move.to, what, got)
			}
			if err := errors.Join(append(told, stores[move.to].Delete(is))...); err != nil {
				t.Error(err)
			}
			if got := contents(f.builder.Build()); got != "" {
				t.Errorf("from %s to %s, %s, and deleted: %q is left", move.from, move.to, what, got)
			}
		}
	}
}

// sliceFor is a slice of a grid's Service, which is headless or not.
func sliceFor(headless bool) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-1", Labels: map[string]string{
			discoveryv1.LabelServiceName: "db", names.GridUniqKey: "site",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
	}
	if headless {
		s.Labels[corev1.IsHeadlessService] = ""
	}
	return s
}

// Who answers "not now, ask again in ten minutes", lists and watches, has nobody wait for that:
// once the API server is well it is followed within seconds.
func TestNobodyWaitsForAsLongAsIsAsked(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	var refuses atomic.Bool
	var refused atomic.Int64
	refuses.Store(true)
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if !refuses.Load() {
			next(w, r)
			return
		}
		refused.Add(1)
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	f := New(s.Client(t), slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Run(ctx) }()
	t.Cleanup(func() { cancel(); s.Close(); <-ended })
	known := func(name string) {
		t.Helper()
		eventually(t, "each of its watches is refused", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.all) > 0 && refused.Load() >= int64(len(f.all))
		})
		refuses.Store(false)
		well := time.Now()
		eventually(t, "Service "+name+" is known", func() bool {
			snap, ok := f.Get()
			return ok && strings.Contains(contents(snap), name+"(")
		})
		t.Logf("%s is known %s after the API server is well", name, time.Since(well).Round(10*time.Millisecond))
	}
	known("kubernetes")
	refused.Store(0)
	refuses.Store(true)
	s.EndWatches()
	putService(t, s, "web", "10.96.0.2")
	known("web")
}

// A proxy that takes no notice of where a page ended has nobody read the first for ever, whatever mark it
// gives with it; what was known stays, and it is told.
func TestAListWithoutAnEnd(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]string{"one mark": "again", "another mark each time": "again-%d"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listWithoutAnEnd(t, mark)
		})
	}
}

func listWithoutAnEnd(t *testing.T, mark string) {
	s := cluster(t)
	var endless atomic.Bool
	var pages atomic.Int64
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		q := r.URL.Query()
		switch is := r.URL.Path == "/api/v1/services"; {
		case !is || !endless.Load():
			next(w, r)
		case q.Get("watch") != "":
			apitest.Fail(w, http.StatusGone, "Expired")
		default:
			next := strings.Replace(mark, "%d", strconv.FormatInt(pages.Add(1), 10), 1)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "5", "continue": %q}, "items": [{"metadata": {"namespace": "default", "name": "kubernetes"}}]}`, next)
		}
	})
	f := follow(t, s)
	f.until("kubernetes(1) a 10.96.0.0/16", contents)
	endless.Store(true)
	s.EndWatches()
	eventually(t, "it is told", func() bool { return strings.Contains(f.Health().Err, "the same page") })
	if snap, _ := f.Get(); !strings.Contains(contents(snap), "kubernetes(1)") {
		t.Errorf("what was known is gone: %s", contents(snap))
	}
	if n := pages.Load(); n > 20 {
		t.Errorf("%d pages were read", n)
	}
	endless.Store(false)
	putService(t, s, "web", "10.96.0.2")
	f.until("kubernetes(1) web(0) a 10.96.0.0/16", contents)
}
