// Package apitest is a peer for tests that speaks an API server's protocol in
// JSON: list in pages, watch, watch-list with bookmarks, get, create, update,
// patch, delete. It knows no schemas, no field ownership and no defaults:
// behaviour of Kubernetes itself is tested against the real one
// (test/kubernetes).
package apitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/kube"
)

// Object is an unstructured object.
type Object = map[string]any

// Hook may answer a request in the place of the server, or change what the
// server does: it calls next, or not.
type Hook func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc)

// Server holds objects.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	version  int
	objects  map[string]Object // by path
	history  []change
	moved    chan struct{} // closed and replaced when history grows, or watches are to end
	epoch    int           // watches of an earlier one have ended
	hook     Hook
	requests []string
}

// change is one step of the server's history.
type change struct {
	resource string // path of the collection, all namespaces
	was, is  Object // nil: did not exist
}

// New serves until the test ends.
func New(t testing.TB) *Server {
	s := &Server{objects: map[string]Object{}, moved: make(chan struct{})}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// Answer answers a request that another server was sent.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request) { s.serve(w, r) }

// Close ends all connections. It is called when the test ends.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.EndWatches()
	s.http.Close()
}

// Client connects to the server.
func (s *Server) Client(t testing.TB) *kube.Client {
	t.Helper()
	return s.ClientAt(t, kube.Rate{QPS: 1000, Burst: 1000})
}

// ClientAt is Client with a rate of its own.
func (s *Server) ClientAt(t testing.TB, rate kube.Rate) *kube.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, s.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kube.Connect(path, "test", rate)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Kubeconfig leads to the server.
func (s *Server) Kubeconfig() []byte {
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: %q}}]}`, s.http.URL)
}

// Hook sets what stands before the server; nil for nothing.
func (s *Server) Hook(h Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = h
}

// EndWatches ends every watch that runs, or was asked for and is about to.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.wake()
}

// Requests returns what was asked so far, as "METHOD path", a watch as "WATCH
// path" and a watch-list as "WATCHLIST path".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count returns how many requests there were.
func (s *Server) Count(request string) (n int) {
	for _, r := range s.Requests() {
		if r == request {
			n++
		}
	}
	return n
}

// Put creates or replaces an object in YAML.
func (s *Server) Put(t testing.TB, manifest string) {
	t.Helper()
	var obj Object
	if err := yaml.Unmarshal([]byte(manifest), &obj); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(pathOf(obj), obj)
}

// Delete removes an object by its path, as "/api/v1/nodes/a".
func (s *Server) Delete(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(path, nil)
}

// Get returns an object by its path, nil where there is none.
func (s *Server) Get(path string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clone(s.objects[path])
}

// Under returns the objects of a collection by its path, sorted by theirs.
func (s *Server) Under(path string) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.under(path)
}

func (s *Server) under(path string) (list []Object) {
	want := parse(path)
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		if p := parse(at); p.resource == want.resource && (want.namespace == "" || p.namespace == want.namespace) {
			list = append(list, clone(s.objects[at]))
		}
	}
	return list
}

// store is called with the lock held. A nil object deletes.
func (s *Server) store(path string, obj Object) {
	was := s.objects[path]
	s.version++
	p := parse(path)
	if obj != nil {
		obj = clone(obj)
		m := metadata(obj)
		if p.namespace != "" {
			m["namespace"] = p.namespace
		}
		if m["uid"] == nil {
			m["uid"] = fmt.Sprintf("uid-%d", s.version)
		}
		m["resourceVersion"] = strconv.Itoa(s.version)
		s.objects[path] = obj
	} else {
		if was == nil {
			return
		}
		was = clone(was)
		metadata(was)["resourceVersion"] = strconv.Itoa(s.version)
		delete(s.objects, path)
	}
	s.history = append(s.history, change{p.resource, was, obj})
	s.wake()
}

func (s *Server) wake() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// location is what a URL names.
type location struct {
	resource              string // "/api/v1/services": the collection of all namespaces
	namespace, name, part string
}

func parse(path string) location {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	group := 2 // api/v1
	if segments[0] == "apis" {
		group = 3 // apis/group/v1
	}
	prefix, rest := "/"+strings.Join(segments[:group], "/"), segments[group:]
	var at location
	if len(rest) > 2 && rest[0] == "namespaces" {
		at.namespace, rest = rest[1], rest[2:]
	}
	rest = append(rest, "", "", "")
	at.resource, at.name, at.part = prefix+"/"+rest[0], rest[1], rest[2]
	return at
}

// pathOf is where an object lives.
func pathOf(obj Object) string {
	version, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	prefix := "/apis/" + version
	if !strings.Contains(version, "/") {
		prefix = "/api/" + version
	}
	m := metadata(obj)
	if namespace, ok := m["namespace"].(string); ok {
		prefix += "/namespaces/" + namespace
	}
	return fmt.Sprintf("%s/%s/%s", prefix, plural(kind), m["name"])
}

// plural is the resource of a kind.
func plural(kind string) string {
	kind = strings.ToLower(kind)
	if stem, ok := strings.CutSuffix(kind, "y"); ok {
		return stem + "ies"
	}
	return kind + "s"
}

func metadata(obj Object) Object {
	m, ok := obj["metadata"].(Object)
	if !ok {
		m = Object{}
		obj["metadata"] = m
	}
	return m
}

func clone(obj Object) (out Object) {
	if obj == nil {
		return nil
	}
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(err) // made from JSON
	}
	return out
}
