package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/feed"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/topology"
)

// faultyAPI stands between a feed and the API server and spoils what it says.
type faultyAPI struct {
	*httptest.Server
	mu      sync.Mutex
	mode    string
	changed chan struct{}     // closed when the mode changes: ends every watch
	first   map[string][]byte // the first list of each kind, to be replayed
	open    map[string]int    // watches of each kind
	lists   map[string]int    // lists and watch-lists of each kind, so far

	listed     map[string]bool // kinds that were listed since the mode changed
	watchLists bool            // are answered; else as by an API server without them
}

func newFaultyAPI(t *testing.T) *faultyAPI {
	t.Helper()
	cfg := c.RESTConfig()
	transport, err := rest.TransportFor(cfg)
	must(t, err)
	target, err := url.Parse(cfg.Host)
	must(t, err)
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Accept", "application/json") // or the lists could not be spoilt
			if strings.Contains(r.In.Header.Get("Accept"), "PartialObjectMetadata") {
				r.Out.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
			}
		},
	}
	f := &faultyAPI{
		changed: make(chan struct{}), first: map[string][]byte{}, listed: map[string]bool{},
		open: map[string]int{}, lists: map[string]int{},
	}
	proxy.ModifyResponse = f.spoil
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, proxy) }))
	t.Cleanup(func() { f.set("closed"); f.CloseClientConnections(); f.Close() })
	return f
}

// kindOf tells lists and watches of one kind from others.
func kindOf(r *http.Request) string {
	return r.URL.Path + "?" + r.URL.Query().Get("labelSelector")
}

func (f *faultyAPI) hasListed(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listed[kindOf(r)]
}

func (f *faultyAPI) noteListed(r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed[kindOf(r)] = true
}

func (f *faultyAPI) count(of map[string]int, r *http.Request, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of[r.URL.Path] += n
}

// asked is how many watches of a path are open, and how often it was listed.
func (f *faultyAPI) asked(path string) (open, lists int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[path], f.lists[path]
}

func (f *faultyAPI) now() (string, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mode, f.changed
}

// set changes the mode and ends every watch. A client whose watch told it something goes on with
// another one: serve has it list where the mode is about lists.
func (f *faultyAPI) set(mode string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
	clear(f.listed)
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *faultyAPI) serve(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	mode, changed := f.now()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	watch := r.URL.Query().Get("watch") != ""
	watchList := r.URL.Query().Get("sendInitialEvents") != ""
	if watchList || !watch {
		f.count(f.lists, r, 1)
	}
	if watch {
		f.count(f.open, r, 1)
		defer f.count(f.open, r, -1)
		go func() {
			select {
			case <-changed:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	switch {
	case mode == "stall":
		<-changed
		http.Error(w, "stalled", http.StatusServiceUnavailable)
		return
	case mode == "429" || mode == "500":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(map[string]int{"429": 429, "500": 500}[mode])
		return
	case watchList && !f.watchLists:
		status(w, 422, "Invalid") // as an API server without watch-lists: clients fall back to lists
		return
	case mode == "before 1.33" && strings.HasSuffix(r.URL.Path, "/servicecidrs"):
		http.NotFound(w, r)
		return
	case mode == "before 1.33":
	case mode == "unanchored" && (!watch || watchList || f.hasListed(r)): // what a client asks for lacks what every cluster has
		f.noteListed(r)
		q := r.URL.Query()
		q.Set("fieldSelector", "metadata.name!=kubernetes")
		r.URL.RawQuery = q.Encode()
	case watch && mode != "" && (mode != "replay" || !f.hasListed(r)):
		status(w, 410, "Expired") // no watch can go on: every client lists again
		return
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

func status(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

// spoil changes lists.
func (f *faultyAPI) spoil(r *http.Response) error {
	mode, _ := f.now()
	if r.Request.URL.Query().Get("watch") != "" || r.StatusCode != http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	kind := kindOf(r.Request)
	switch mode {
	case "before 1.33":
		if r.Request.URL.Path == "/apis/networking.k8s.io/v1" {
			body = bytes.ReplaceAll(body, []byte(`"servicecidrs`), []byte(`"unheardof`))
		}
	case "":
		f.mu.Lock()
		if f.first[kind] == nil {
			f.first[kind] = bytes.Clone(body)
		}
		f.mu.Unlock()
	case "replay": // a state of the past, whole, with the resourceVersion of then
		f.mu.Lock()
		body = bytes.Clone(f.first[kind])
		f.listed[kind] = true
		f.mu.Unlock()
	case "truncate":
		body = body[:len(body)/2]
	case "empty", "few":
		var list map[string]any
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		items, _ := list["items"].([]any)
		var kept []any
		for _, item := range items {
			if mode == "few" && len(kept) == 0 && strings.Contains(fmt.Sprint(item), "name:kubernetes") {
				kept = append(kept, item)
			}
		}
		list["items"] = kept
		if body, err = json.Marshal(list); err != nil {
			return err
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

type follower struct{ *feed.Feed }

// Snapshot is the newest one, nil before the first.
func (f follower) Snapshot() *topology.Snapshot {
	s, _ := f.Get()
	return s
}

// follow starts a feed through the proxy.
func (f *faultyAPI) follow(t *testing.T) follower {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: %q}}]}`, f.URL), 0o600))
	client, err := kube.Connect(path, "test", kube.NodeRate())
	must(t, err)
	feed := feed.New(client, slog.New(slog.NewTextHandler(io.Discard, nil)), feed.NewMetrics(prometheus.NewRegistry()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = feed.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); f.set("closed"); <-done })
	return follower{feed}
}

func servicesIn(s *topology.Snapshot) (n int) {
	if s == nil {
		return 0
	}
	for _, e := range s.Services.All() {
		if e.Service != nil {
			n++
		}
	}
	return n
}

// An API server that stalls, fails, truncates, empties or forgets does not
// take anything away that was known; what it truly deletes goes at once.
func TestFeedSurvivesAFaultyAPIServer(t *testing.T) {
	var made []string
	for i := range 8 {
		name := fmt.Sprintf("feed-%d", i)
		must(t, c.Apply(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ports: [{port: 80}]}}", name)))
		made = append(made, "service/"+name)
	}
	t.Cleanup(func() {
		_, err := c.Kubectl(append([]string{"delete", "--ignore-not-found"}, made...)...)
		must(t, err)
	})
	f := newFaultyAPI(t)
	f.set("stall")
	feed := f.follow(t)
	wait.Holds(t, 300*time.Millisecond, func() error {
		if feed.Snapshot() != nil {
			return errors.New("published before the API server said anything")
		}
		return nil
	})
	f.set("")
	took := wait.Eventually(t, func() error {
		if n := servicesIn(feed.Snapshot()); n < 9 {
			return fmt.Errorf("%d Services", n)
		}
		return nil
	})
	t.Logf("whole %s after the stall", took)
	all, nodes := servicesIn(feed.Snapshot()), feed.Snapshot().Nodes.Len()

	for _, mode := range []string{"429", "500", "truncate", "empty", "few", "stall"} {
		f.set(mode)
		wait.Holds(t, 2*time.Second, func() error {
			s := feed.Snapshot()
			if n := servicesIn(s); n != all || s.Nodes.Len() != nodes || len(s.ServiceCIDRs) != 2 {
				return fmt.Errorf("%s: %d of %d Services and %d of %d nodes are left; the guarded ranges are %v", mode, n, all, s.Nodes.Len(), nodes, s.ServiceCIDRs)
			}
			return nil
		})
		f.set("")
		name := "feed-after-" + mode
		must(t, c.Apply(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ports: [{port: 80}]}}", name)))
		made = append(made, "service/"+name)
		all++
		took := wait.Eventually(t, func() error {
			if n := servicesIn(feed.Snapshot()); n != all {
				return fmt.Errorf("%d Services, want %d", n, all)
			}
			return nil
		})
		t.Logf("%s: followed again after %s", mode, took)
	}
	// The past is taken for what it is: the watch goes on from there and leads
	// back to the present.
	f.set("replay")
	past := feed.Snapshot()
	took = wait.Eventually(t, func() error {
		if feed.Snapshot() == past {
			return errors.New("nothing was replayed")
		}
		if n := servicesIn(feed.Snapshot()); n != all {
			return fmt.Errorf("%d Services, want %d", n, all)
		}
		return nil
	})
	t.Logf("replay: back in the present after %s", took)
	f.set("")
	_, err := c.Kubectl(append([]string{"delete"}, made...)...)
	must(t, err)
	took = wait.Within(t, 25*time.Second, func() error {
		if n := servicesIn(feed.Snapshot()); n != all-len(made) {
			return fmt.Errorf("%d Services, want %d", n, all-len(made))
		}
		return nil
	})
	t.Logf("%d watch deletes were believed within %s", len(made), took)
}
