package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
	"github.com/gridmesh/gridmesh/topology"
)

// before133 answers as an API server that has no ServiceCIDRs; has is what it
// says about that when it is asked.
func before133(has string) apitest.Hook {
	return func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/servicecidrs"):
			http.NotFound(w, r)
		case r.URL.Path == networking && has != "":
			groupWith(w, has)
		case r.URL.Path == networking:
			http.NotFound(w, r)
		default:
			next(w, r)
		}
	}
}

const networking = "/apis/networking.k8s.io/v1"

// groupWith answers that an API group has a resource.
func groupWith(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "networking.k8s.io/v1", "resources": [{"name": %q, "kind": "X"}]}`, name)
}

// since133 answers as an API server that has ServiceCIDRs, also who was told
// otherwise before and asks for them only now.
func since133(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	if r.URL.Path == networking {
		groupWith(w, "servicecidrs")
		return
	}
	next(w, r)
}

// An API server that says that it knows no ServiceCIDRs is followed without.
func TestAPIServerBefore133(t *testing.T) {
	s := cluster(t)
	s.Hook(before133("networkpolicies"))
	f := follow(t, s)
	f.until("kubernetes(1) a", contents)
	putService(t, s, "web", "10.96.0.2")
	f.until("kubernetes(1) web(0) a", contents)
	if n := s.Count("GET /apis/networking.k8s.io/v1/servicecidrs"); n != 1 {
		t.Errorf("it was asked for ServiceCIDRs %d times", n)
	}
	if h := f.Health(); h.Err != "" || len(h.Held) > 0 {
		t.Errorf("its health says %+v", h)
	}
}

// A 404 by who knows no API group either is no list.
func TestNotFoundAloneIsNoList(t *testing.T) {
	t.Parallel()
	for name, has := range map[string]string{"a load balancer": "", "an API server that has them": "servicecidrs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t)
			s.Hook(before133(has))
			f := follow(t, s)
			eventually(t, "the rest is listed and this was asked for twice", func() bool {
				return strings.Join(f.Waiting(), " ") == "servicecidrs" && s.Count("GET /apis/networking.k8s.io/v1/servicecidrs") >= 2
			})
			if snap, ok := f.Get(); ok {
				t.Errorf("published without ranges: %s", contents(snap))
			}
			s.Hook(since133)
			f.until("kubernetes(1) a 10.96.0.0/16", contents)
			// And nothing that was known goes.
			s.Hook(before133(has))
			s.EndWatches()
			eventually(t, "the failure is known", func() bool { return f.Health().Err != "" })
			putService(t, s, "web", "10.96.0.2")
			f.until("kubernetes(1) web(0) a 10.96.0.0/16", contents)
		})
	}
}

// refusing is an API server that knows no ServiceCIDRs.
type refusing struct{}

var errNotFound = apierrors.NewNotFound(schema.GroupResource{Resource: "servicecidrs"}, "")

func (refusing) List(context.Context, metav1.ListOptions) (*networkingv1.ServiceCIDRList, error) {
	return nil, errNotFound
}

func (refusing) Watch(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
	return nil, errNotFound
}

// It is asked again now and then: it may have been upgraded.
func TestAnUpgradeIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := func() *networkingv1.ServiceCIDRList { return &networkingv1.ServiceCIDRList{} }
		n := newer[*networkingv1.ServiceCIDRList]{api: refusing{}, none: none, has: func(context.Context) (bool, error) { return false, nil }}
		w, err := n.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		event := <-w.ResultChan()
		if err := apierrors.FromObject(event.Object); time.Since(begin) != upgraded || !apierrors.IsResourceExpired(err) {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		w.Stop()
		w, err = n.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.Stop()
		if _, open := <-w.ResultChan(); open {
			t.Error("a watch that was stopped goes on")
		}
		begins := true
		if _, err := n.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &begins}); !apierrors.IsNotFound(err) {
			t.Errorf("a watch-list: %v", err) // so that the list is asked for
		}
		if _, err := n.List(t.Context(), metav1.ListOptions{Continue: "x"}); !apierrors.IsNotFound(err) {
			t.Errorf("a further page: %v", err)
		}
	})
}

// A page that fails, whatever the code, or a watch-list that is cut off, takes
// nothing away.
func TestPartOfAListIsNoList(t *testing.T) {
	t.Parallel()
	const n = pageSize + 1
	for name, spoil := range map[string]apitest.Hook{
		"403": failPage(http.StatusForbidden), "404": failPage(http.StatusNotFound), "500": failPage(http.StatusInternalServerError),
		"cut off": func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
			if r.URL.Query().Get("sendInitialEvents") == "" {
				apitest.Fail(w, http.StatusServiceUnavailable, "away")
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintln(w, `{"type": "ADDED", "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t)
			for i := range n {
				s.Put(t, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: n%d}}`, i))
			}
			if name != "cut off" {
				s.Hook(noWatchLists)
			}
			f := follow(t, s)
			count := func(s *topology.Snapshot) string { return fmt.Sprint(s.Nodes.Len()) }
			f.until(fmt.Sprint(n+1), count)
			var spoilt atomic.Int64
			s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
				switch q := r.URL.Query(); {
				case !strings.HasSuffix(r.URL.Path, "/nodes"):
					next(w, r)
				case q.Get("watch") != "" && q.Get("sendInitialEvents") == "":
					apitest.Fail(w, http.StatusGone, "Expired")
				default:
					spoilt.Add(1)
					spoil(w, r, next)
				}
			})
			s.EndWatches()
			eventually(t, "lists fail", func() bool { return spoilt.Load() >= 2 })
			if snap, _ := f.Get(); count(snap) != fmt.Sprint(n+1) {
				t.Errorf("%s nodes are left", count(snap))
			}
			s.Hook(nil)
			s.Delete("/api/v1/nodes/n0")
			f.until(fmt.Sprint(n), count)
		})
	}
}

// failPage fails watch-lists, and every page but the first.
func failPage(code int) apitest.Hook {
	return func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if r.URL.Query().Get("continue") != "" {
			apitest.Fail(w, code, http.StatusText(code))
			return
		}
		noWatchLists(w, r, next)
	}
}

// A feed that is run again knows what it knew, and what went meanwhile goes.
func TestFeedRunsAgain(t *testing.T) {
	s := cluster(t)
	putService(t, s, "web", "10.96.0.2")
	f := New(s.Client(t), slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	run := func() (follower, func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		return follower{f, t, f.Wake(), nil}, func() {
			cancel()
			s.EndWatches()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	follower, stop := run()
	follower.until("kubernetes(1) web(0) a 10.96.0.0/16", contents)
	if err := f.Run(t.Context()); !errors.Is(err, ErrRuns) {
		t.Errorf("beside one that runs: %v", err)
	}
	stop()
	s.Delete("/api/v1/namespaces/default/services/web")
	putService(t, s, "db", "10.96.0.3")
	follower, stop = run()
	defer stop()
	follower.until("db(0) kubernetes(1) a 10.96.0.0/16", contents)
}

// The first change after a pause is published at once, what follows within a
// batch once that is over.
func TestFirstChangeIsPublishedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(&kube.Client{}, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.publish(ctx)
		nodes := 0
		put := func() {
			nodes++
			name := fmt.Sprint("n", nodes)
			f.change(func(b *topology.Builder) bool { return b.SetNode(&topology.Node{Name: name}) })
			synctest.Wait()
		}
		published := func(want int) {
			t.Helper()
			synctest.Wait()
			snap, ok := f.Get()
			if got := snap.Nodes.Len(); !ok || got != want {
				t.Fatalf("published %v with %d nodes, want %d", ok, got, want)
			}
		}
		for range 3 {
			time.Sleep(time.Second)
			begin := nodes
			put()
			published(begin + 1)
			wake := f.Wake()
			<-wake // what is there
			put()
			put()
			published(begin + 1)
			time.Sleep(batch)
			published(begin + 3)
			<-wake
			time.Sleep(time.Second)
			select {
			case <-wake:
				t.Error("nothing changed, and there is another snapshot")
			default:
			}
		}
	})
}

// A cluster whose API server writes no endpoints of its own is followed, once
// its lists have said so for long enough.
func TestNoEndpointsOfTheAPIServer(t *testing.T) {
	s := cluster(t)
	s.Delete("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
	putSlice(t, s, "web-1", "web", "10.1.0.1", "")
	f := New(s.Client(t), slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	var later atomic.Int64
	f.look, f.now = 10*time.Millisecond, func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Run(ctx) }()
	t.Cleanup(func() { cancel(); s.Close(); <-ended })
	eventually(t, "the list is held back", func() bool {
		return strings.Join(f.Waiting(), " ") == "endpointslices" && strings.Contains(strings.Join(f.Health().Held, " "), "waiting for a list 1m0s later that agrees")
	})
	later.Store(int64(patience))
	follower{f, t, f.Wake(), nil}.until("kubernetes(0) [web](1) a 10.96.0.0/16", contents)
	if h := f.Health(); h.Err != "" || len(h.Held) > 0 {
		t.Errorf("its health says %+v", h)
	}
}

// A watch that fails is told of, however often others are answered: what it has told
// grows old.
func TestOneWatchThatFails(t *testing.T) {
	s := cluster(t)
	f := follow(t, s)
	f.until("kubernetes(1) a 10.96.0.0/16", contents)
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if strings.HasSuffix(r.URL.Path, "/endpointslices") {
			apitest.Fail(w, http.StatusForbidden, "Forbidden")
			return
		}
		next(w, r)
	})
	s.EndWatches()
	eventually(t, "the failure is known", func() bool { return !f.Health().Refused.IsZero() })
	began := f.Health().Since
	for i := range 20 {
		s.Put(t, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: b%d}}`, i))
		eventually(t, "the Node is known", func() bool { snap, _ := f.Get(); return snap.Nodes.Len() == i+2 })
		if now := f.Health(); now.Err == "" || now.Refused.IsZero() || now.Since.Sub(began).Abs() > time.Millisecond {
			t.Fatalf("with Node %d: %+v, want one that fails since %s", i, now, began)
		}
	}
	s.Hook(nil)
	eventually(t, "nothing fails any more", func() bool { return f.Health().Err == "" })
}

// A kind that the API server does not know is heard of whenever that is asked again.
func TestAKindThatIsNotKnownIsHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		f := newServiceStore(&now).feed
		none := func() *networkingv1.ServiceCIDRList { return &networkingv1.ServiceCIDRList{} }
		n := newer[*networkingv1.ServiceCIDRList]{api: refusing{}, none: none, has: func(context.Context) (bool, error) { return false, nil }}
		r := newRequests(f, n, selected("servicecidrs", "", "", 0))
		for range 3 {
			now = time.Now()
			w, err := r.watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if at := f.spoke["servicecidrs"]; !at.Equal(now) {
				t.Errorf("heard of at %s, and asked at %s", at, now)
			}
			<-w.ResultChan()
			if _, err := r.list(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		r.again.Rest()
	})
}
