package health

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldsof "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/kube"
)

// apiServer answers list and watch of Nodes and ConfigMaps as an API server does.
type apiServer struct {
	t      *testing.T
	client *kube.Client
	http   *httptest.Server

	mu      sync.Mutex
	version int
	objects map[string]runtime.Object // by path
	changed chan struct{}             // closed at each change
	forbid  string                    // requests about that are refused
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{t: t, version: 1, objects: map[string]runtime.Object{}, changed: make(chan struct{})}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() { s.http.CloseClientConnections(); s.http.Close() })
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u}], contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c}`, s.http.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kube.Connect(file, "test", kube.NodeRate())
	if err != nil {
		t.Fatal(err)
	}
	s.client = c
	return s
}

// put has an object be there, of a manifest.
func (s *apiServer) put(manifest string) {
	s.t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(manifest), &kind); err != nil {
		s.t.Fatal(err)
	}
	var obj runtime.Object = &corev1.Node{}
	if kind.Kind == "ConfigMap" {
		obj = &corev1.ConfigMap{}
	}
	if err := yaml.UnmarshalStrict([]byte(manifest), obj); err != nil {
		s.t.Fatal(err)
	}
	s.change(func() {
		m := obj.(metav1.Object)
		m.SetResourceVersion(fmt.Sprint(s.version))
		s.objects[pathOf(m, kind.Kind)] = obj
	})
}

func pathOf(m metav1.Object, kind string) string {
	if kind == "ConfigMap" {
		return "/api/v1/namespaces/" + m.GetNamespace() + "/configmaps/" + m.GetName()
	}
	return "/api/v1/nodes/" + m.GetName()
}

func (s *apiServer) remove(path string) { s.change(func() { delete(s.objects, path) }) }

func (s *apiServer) refuse(what string) { s.change(func() { s.forbid = what }) }

func (s *apiServer) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// selected are the objects that a request is about, the version, and what tells of a change.
func (s *apiServer) selected(r *http.Request) (of map[string]runtime.Object, version int, changed chan struct{}) {
	byLabel, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	byField, _ := fieldsof.ParseSelector(r.URL.Query().Get("fieldSelector"))
	s.mu.Lock()
	defer s.mu.Unlock()
	of = map[string]runtime.Object{}
	for path, obj := range s.objects {
		m := obj.(metav1.Object)
		if strings.HasPrefix(path, r.URL.Path+"/") && byLabel.Matches(labels.Set(m.GetLabels())) && byField.Matches(fieldsof.Set{"metadata.name": m.GetName()}) {
			of[path] = obj
		}
	}
	return of, s.version, s.changed
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	forbidden := s.forbid != "" && strings.Contains(r.URL.RequestURI(), s.forbid)
	s.mu.Unlock()
	code, reason := http.StatusForbidden, "Forbidden"
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		code, reason, forbidden = http.StatusUnprocessableEntity, "Invalid", true // then it is listed
	}
	w.Header().Set("Content-Type", "application/json")
	if forbidden {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
		return
	}
	if r.URL.Query().Get("watch") != "" {
		s.watch(w, r)
		return
	}
	of, version, _ := s.selected(r)
	items := []runtime.Object{}
	for _, obj := range of {
		items = append(items, obj)
	}
	kind := map[bool]string{true: "NodeList", false: "ConfigMapList"}[strings.HasSuffix(r.URL.Path, "/nodes")]
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]string{"resourceVersion": fmt.Sprint(version)}, "items": items})
}

// watch tells of what changes from now on; who listed something older lists again.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	was, version, _ := s.selected(r)
	if r.URL.Query().Get("resourceVersion") != fmt.Sprint(version) {
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
		return
	}
	for {
		of, version, changed := s.selected(r)
		send := func(kind string, obj runtime.Object) {
			m := obj.DeepCopyObject()
			m.(metav1.Object).SetResourceVersion(fmt.Sprint(version))
			_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": m})
		}
		for path, obj := range of {
			if was[path] != obj {
				send("MODIFIED", obj)
			}
		}
		for path, obj := range was {
			if of[path] == nil {
				send("DELETED", obj)
			}
		}
		was = of
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
