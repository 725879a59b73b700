package feed

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
	"github.com/gridmesh/gridmesh/topology"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go speaks of every fault that is made here
	goleak.VerifyTestMain(m)
}

// deadline is generous: it is only waited for where a test fails.
const deadline = time.Minute

const sliceYAML = `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: default, name: %s, labels: {kubernetes.io/service-name: %s%s}, annotations: {%s}},
  addressType: IPv4, ports: [{port: 8080}], endpoints: [{addresses: [%s]}]}`

// cluster is an API server with what every cluster has.
func cluster(t *testing.T) *apitest.Server {
	t.Helper()
	s := apitest.New(t)
	putService(t, s, "kubernetes", "10.96.0.1")
	putSlice(t, s, "kubernetes", "kubernetes", "192.0.2.1", "")
	s.Put(t, `{apiVersion: v1, kind: Node, metadata: {name: a, labels: {site: a}}, spec: {podCIDR: 10.244.0.0/24}}`)
	s.Put(t, `{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: kubernetes}, spec: {cidrs: [10.96.0.0/16]}}`)
	return s
}

func putService(t *testing.T, s *apitest.Server, name, ip string) {
	t.Helper()
	s.Put(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: default, name: %s}, spec: {clusterIP: %s, ports: [{port: 80}]}}`, name, ip))
}

func putSlice(t *testing.T, s *apitest.Server, name, of, ip, annotations string) {
	t.Helper()
	s.Put(t, fmt.Sprintf(sliceYAML, name, of, "", annotations, ip))
}

// follower is a feed that runs.
type follower struct {
	*Feed
	t        *testing.T
	wake     <-chan struct{}
	registry *prometheus.Registry
}

// held is how many lists were held back.
func (f follower) held() (n float64) {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "gridmesh_feed_held_total" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// follow follows with short pauses until the test ends.
func follow(t *testing.T, s *apitest.Server) follower {
	t.Helper()
	quick := retry
	quick.Duration, quick.Cap = 10*time.Millisecond, 100*time.Millisecond
	return followWith(t, s, quick)
}

// followWith follows with other pauses between what fails.
func followWith(t *testing.T, s *apitest.Server, pauses wait.Backoff) follower {
	t.Helper()
	return followBy(t, s.Client(t), s, pauses)
}

// followBy follows by a client whose requests a server answers at the end.
func followBy(t *testing.T, c *kube.Client, s *apitest.Server, pauses wait.Backoff) follower {
	t.Helper()
	registry := prometheus.NewRegistry()
	f := New(c, slog.New(slog.DiscardHandler), NewMetrics(registry))
	f.retry, f.look = pauses, 10*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Run(ctx) }()
	t.Cleanup(func() { cancel(); s.Close(); <-ended })
	return follower{f, t, f.Wake(), registry}
}

// until waits for a snapshot of which text says what is wanted.
func (f follower) until(want string, text func(*topology.Snapshot) string) *topology.Snapshot {
	f.t.Helper()
	timeout, got := time.After(deadline), "nothing"
	for {
		select {
		case <-f.wake:
			snap, _ := f.Get()
			if got = text(snap); got == want {
				return snap
			}
		case <-timeout:
			f.t.Fatalf("the newest snapshot has %s, want %s", got, want)
		}
	}
}

// contents are the Services, as "name(endpoints)", those of which only slices
// are known as "[name](endpoints)"; then nodes and ranges.
func contents(s *topology.Snapshot) string {
	var words []string
	for _, key := range s.Services.SortedKeys(topology.ObjectKey.Compare) {
		e, _ := s.Services.Get(key)
		name := key.Name
		if e.Service == nil {
			name = "[" + name + "]"
		}
		n := 0
		for _, slice := range e.Slices {
			n += len(slice.Endpoints)
		}
		words = append(words, fmt.Sprintf("%s(%d)", name, n))
	}
	words = append(words, s.Nodes.SortedKeys(strings.Compare)...)
	for _, p := range s.ServiceCIDRs {
		words = append(words, p.String())
	}
	return strings.Join(words, " ")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > deadline {
			t.Fatal("not within " + deadline.String() + ": " + what)
		}
	}
}

// noWatchLists answers as an API server without them: clients fall back.
func noWatchLists(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		apitest.Fail(w, http.StatusUnprocessableEntity, "Invalid")
		return
	}
	next(w, r)
}

func TestFeedFollows(t *testing.T) {
	for name, hook := range map[string]apitest.Hook{"watch-lists": nil, "lists": noWatchLists} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t)
			s.Hook(hook)
			f := follow(t, s)
			first := f.until("kubernetes(1) a 10.96.0.0/16", contents)
			if first.Partial {
				t.Error("a feed's snapshot is partial")
			}
			if n, _ := first.Nodes.Get("a"); n.Labels["site"] != "a" {
				t.Errorf("the node came as %v", n)
			}
			const services = "/api/v1/services"
			if lists := s.Count("GET "+services) > 0; lists != (hook != nil) || s.Count("WATCHLIST "+services) == 0 {
				t.Errorf("asked %v", s.Requests())
			}
			putService(t, s, "web", "10.96.0.2")
			putSlice(t, s, "web-1", "web", "10.1.0.1", "")
			s.Put(t, `{apiVersion: v1, kind: Node, metadata: {name: b}}`)
			s.Put(t, `{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: more}, spec: {cidrs: [10.97.0.0/16]}}`)
			f.until("kubernetes(1) web(1) a b 10.96.0.0/16 10.97.0.0/16", contents)
			s.Delete("/api/v1/namespaces/default/services/web")
			s.Delete("/api/v1/nodes/b")
			s.Delete("/apis/networking.k8s.io/v1/servicecidrs/more")
			f.until("kubernetes(1) [web](1) a 10.96.0.0/16", contents)
			s.Delete("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-1")
			f.until("kubernetes(1) a 10.96.0.0/16", contents)
		})
	}
}

// Of what another proxy serves there is the name alone. Its endpoints, and those
// of headless Services that belong to no grid, are not even asked for.
func TestFeedSelects(t *testing.T) {
	s := cluster(t)
	s.Put(t, `{apiVersion: v1, kind: Service, metadata: {namespace: default, name: other, labels: {service.kubernetes.io/service-proxy-name: x}}, spec: {clusterIP: 10.96.0.7}}`)
	s.Put(t, fmt.Sprintf(sliceYAML, "other-1", "other", ", service.kubernetes.io/service-proxy-name: x", "", "10.1.0.1"))
	s.Put(t, fmt.Sprintf(sliceYAML, "headless-1", "headless", `, service.kubernetes.io/headless: ""`, "", "10.1.0.2"))
	s.Put(t, fmt.Sprintf(sliceYAML, "grid-1", "grid", `, service.kubernetes.io/headless: "", superedge.io/grid-uniq-key: site`, "", "10.1.0.3"))
	f := follow(t, s)
	snap := f.until("[grid](1) kubernetes(1) other(0) a 10.96.0.0/16", contents)
	other := topology.ObjectKey{Namespace: "default", Name: "other"}
	if e, _ := snap.Services.Get(other); !e.Service.Equal(&topology.Service{Key: other, Foreign: true}) {
		t.Errorf("the other proxy's Service came as %+v", e.Service)
	}
	// And when the label goes it is ours, with its endpoints.
	putService(t, s, "other", "10.96.0.7")
	putSlice(t, s, "other-1", "other", "10.1.0.1", "")
	f.until("[grid](1) kubernetes(1) other(1) a 10.96.0.0/16, ours: true", func(s *topology.Snapshot) string {
		e, _ := s.Services.Get(other)
		return fmt.Sprintf("%s, ours: %v", contents(s), e != nil && e.Service != nil && !e.Service.Foreign && len(e.Service.ClusterIPs) == 1)
	})
	s.Delete("/api/v1/namespaces/default/services/other")
	s.Delete("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/other-1")
	f.until("[grid](1) kubernetes(1) a 10.96.0.0/16", contents)
}

// Who labels the Service that every whole list has leaves it to another proxy, and stops no
// node: neither one that starts, nor one that lists anew.
func TestALabelOnTheAnchorStopsNobody(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	s.Put(t, `{apiVersion: v1, kind: Service, metadata: {namespace: default, name: kubernetes, labels: {service.kubernetes.io/service-proxy-name: x}}, spec: {clusterIP: 10.96.0.1}}`)
	putService(t, s, "web", "10.96.0.7")
	f := follow(t, s)
	f.until("foreign, with 2 Services", func(s *topology.Snapshot) string {
		e, _ := s.Services.Get(topology.ObjectKey{Namespace: "default", Name: "kubernetes"})
		if e == nil || e.Service == nil || !e.Service.Foreign {
			return "ours"
		}
		return fmt.Sprintf("foreign, with %d Services", s.Services.Len())
	})
}

// A list of more than one page is one list.
func TestFeedListsInPages(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	s.Hook(noWatchLists)
	const n = 2*pageSize + 1
	for i := range n {
		s.Put(t, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: n%d}}`, i))
	}
	f := follow(t, s)
	f.until(fmt.Sprint(n+1), func(s *topology.Snapshot) string { return fmt.Sprint(s.Nodes.Len()) })
	if got := s.Count("GET /api/v1/nodes"); got != 3 {
		t.Errorf("%d requests for the nodes, want 3 pages", got)
	}
}

// Nothing is published while one watch has said nothing.
func TestNothingIsPublishedBeforeAllIsListed(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	held := make(chan struct{})
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if strings.HasSuffix(r.URL.Path, "/nodes") {
			select {
			case <-held:
			case <-r.Context().Done():
				return
			}
		}
		next(w, r)
	})
	f := follow(t, s)
	eventually(t, "everything else is listed", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.missing) == 1 && f.missing["nodes"] // not before Run has begun
	})
	time.Sleep(3 * batch) // a snapshot would be there by now
	if snap, ok := f.Get(); ok {
		t.Errorf("published without nodes: %s", contents(snap))
	}
	close(held)
	f.until("kubernetes(1) a 10.96.0.0/16", contents)
}

// Lists that are not believed leave what is known, and the feed asks again.
func TestHeldListsChangeNothing(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]apitest.Hook{"watch-lists": nil, "lists": noWatchLists} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t)
			s.Hook(hook)
			for i := range 8 {
				putService(t, s, fmt.Sprintf("s%d", i), fmt.Sprintf("10.96.0.1%d", i))
			}
			f := follow(t, s)
			const all = "kubernetes(1) s0(0) s1(0) s2(0) s3(0) s4(0) s5(0) s6(0) s7(0) a 10.96.0.0/16"
			f.until(all, contents)
			// The API server forgets, as one with another, empty etcd.
			s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
				q := r.URL.Query()
				if strings.HasSuffix(r.URL.Path, "/services") {
					q.Set("labelSelector", "none=such")
					if q.Get("watch") != "" && q.Get("sendInitialEvents") == "" {
						apitest.Fail(w, http.StatusGone, "Expired")
						return
					}
					r.URL.RawQuery = q.Encode()
				}
				if hook != nil {
					hook(w, r, next)
					return
				}
				next(w, r)
			})
			s.EndWatches()
			eventually(t, "lists are held back", func() bool { return f.held() >= 2 })
			if snap, _ := f.Get(); contents(snap) != all {
				t.Errorf("left is %s", contents(snap))
			}
			s.Hook(hook)
			putService(t, s, "s8", "10.96.0.18")
			f.until(strings.Replace(all, "s7(0)", "s7(0) s8(0)", 1), contents)
		})
	}
}

// A list that is held back for long is looked at again and again, and costs
// one watch, whether it came by a watch-list or not.
func TestHeldListsLeaveNoWatchOpen(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]apitest.Hook{"watch-lists": func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) { next(w, r) }, "lists": noWatchLists} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t)
			s.Hook(hook)
			slow := retry // so that watches have the time to end
			slow.Cap = slow.Duration
			f := followWith(t, s, slow)
			f.until("kubernetes(1) a 10.96.0.0/16", contents)
			var open, most, watches atomic.Int64
			var expired atomic.Bool
			s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
				q := r.URL.Query()
				if !strings.HasPrefix(q.Get("labelSelector"), "!service.kubernetes.io/service-proxy-name") || !strings.HasSuffix(r.URL.Path, "/services") {
					hook(w, r, next)
					return
				}
				// Watches that go on where they ended would list nothing.
				if q.Get("watch") != "" && q.Get("sendInitialEvents") == "" && expired.CompareAndSwap(false, true) {
					apitest.Fail(w, http.StatusGone, "Expired")
					return
				}
				q.Set("labelSelector", "none=such")
				r.URL.RawQuery = q.Encode()
				if q.Get("watch") != "" && (name == "watch-lists" || q.Get("sendInitialEvents") == "") {
					watches.Add(1)
					n := open.Add(1)
					defer open.Add(-1)
					for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
					}
				}
				hook(w, r, next)
			})
			s.EndWatches()
			eventually(t, "lists are held back", func() bool { return f.held() >= 3 && watches.Load() >= 3 })
			// One is open; another may be about to end.
			eventually(t, "one watch is open", func() bool { return open.Load() == 1 })
			if n := most.Load(); n > 2 {
				t.Errorf("%d watches were open at once", n)
			}
			eventually(t, "its health says what is held back, and nothing else", func() bool { // once a watch was answered
				h := f.Health()
				return len(h.Held) == 1 && strings.Contains(h.Held[0], "services lacks default/kubernetes") && h.Err == ""
			})
			// What the API server says of the rest is followed all the while.
			s.Put(t, `{apiVersion: v1, kind: Node, metadata: {name: b}}`)
			f.until("kubernetes(1) a b 10.96.0.0/16", contents)
			s.Hook(hook)
			eventually(t, "the list is believed", func() bool { return len(f.Health().Held) == 0 })
		})
	}
}

// What changes at once is one snapshot, or few.
func TestChangesAreBatched(t *testing.T) {
	s := cluster(t)
	f := follow(t, s)
	f.until("kubernetes(1) a 10.96.0.0/16", contents)
	const changes = 200
	count := make(chan int)
	wake, stop := f.Wake(), make(chan struct{})
	go func() {
		n := 0
		for {
			select {
			case <-wake:
				n++
			case <-stop:
				count <- n
				return
			}
		}
	}()
	begin := time.Now()
	for i := range changes {
		putService(t, s, fmt.Sprintf("s%d", i), "10.96.1.1")
	}
	f.until(fmt.Sprint(changes+1), func(s *topology.Snapshot) string { return fmt.Sprint(s.Services.Len()) })
	took := time.Since(begin)
	close(stop)
	if n, most := <-count, int(took/batch)+2; n > most {
		t.Errorf("%d snapshots in %s, want at most %d", n, took, most)
	}
}

// A snapshot knows when its changes began; those from before the start are of
// no interest, and an object that is the same again is no change.
func TestTriggersComeWithTheSnapshot(t *testing.T) {
	s := cluster(t)
	const annotation = `endpoints.kubernetes.io/last-change-trigger-time: "%s"`
	now := time.Now().UTC()
	old := fmt.Sprintf(annotation, now.Add(-time.Hour).Format(time.RFC3339Nano))
	putSlice(t, s, "web-1", "web", "10.1.0.1", old)
	f := follow(t, s)
	first := f.until("kubernetes(1) [web](1) a 10.96.0.0/16", contents)
	if got := first.TriggersSince(nil); len(got) != 0 {
		t.Errorf("triggers from before the start: %v", got)
	}
	at := now.Add(time.Hour).Truncate(time.Second)
	putSlice(t, s, "web-2", "web", "10.1.0.2", fmt.Sprintf(annotation, at.Format(time.RFC3339Nano)))
	second := f.until("kubernetes(1) [web](2) a 10.96.0.0/16", contents)
	if got := second.TriggersSince(first); len(got) != 1 || !got[0].Equal(at) {
		t.Errorf("triggers %v, want %s", got, at)
	}
	putSlice(t, s, "web-2", "web", "10.1.0.2", fmt.Sprintf(annotation, at.Add(time.Second).Format(time.RFC3339Nano)))
	putSlice(t, s, "web-3", "web", "10.1.0.3", "") // nothing is noted
	third := f.until("kubernetes(1) [web](3) a 10.96.0.0/16", contents)
	if got := third.TriggersSince(second); len(got) != 0 {
		t.Errorf("triggers of what did not change: %v", got)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	f := follow(t, s)
	f.until("kubernetes(1) a 10.96.0.0/16", contents)
	if h := f.Health(); h.LastContact.IsZero() || h.Err != "" {
		t.Errorf("health of an API server that answers: %+v", h)
	}
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		apitest.Fail(w, http.StatusInternalServerError, "broken")
	})
	s.EndWatches()
	eventually(t, "the failure is known", func() bool { return strings.Contains(f.Health().Err, "broken") })
	contact := f.Health().LastContact
	s.Hook(nil)
	eventually(t, "it answers again", func() bool { h := f.Health(); return h.Err == "" && h.LastContact.After(contact) })
}

// An API server that is dead has answered nothing, also when client-go gives up on a watch:
// it once was "back" every few minutes of an outage.
func TestADeadServerIsNoContact(t *testing.T) {
	t.Parallel()
	s := cluster(t)
	f := follow(t, s)
	f.until("kubernetes(1) a 10.96.0.0/16", contents)
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	})
	s.EndWatches()
	eventually(t, "the silence is known", func() bool { return f.Health().Err != "" })
	contact := f.Health().LastContact
	asked := func() (n int) {
		for _, r := range s.Requests() {
			if strings.HasSuffix(r, " /api/v1/nodes") {
				n++
			}
		}
		return n
	}
	const tries = 11 // of one watch, a second apart
	until := asked() + tries + 2
	eventually(t, "all tries of a watch, and more", func() bool {
		if h := f.Health(); !h.LastContact.Equal(contact) {
			t.Fatalf("contact %v after the end of it", h.LastContact.Sub(contact))
		}
		return asked() > until
	})
}
