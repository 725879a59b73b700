package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Fail answers as an API server does that refuses a request.
func Fail(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, reason, code)
}

// epochKey is for the epoch in which a request was made.
type epochKey struct{}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, verb(r)+" "+r.URL.Path)
	hook := s.hook
	r = r.WithContext(context.WithValue(r.Context(), epochKey{}, s.epoch))
	s.mu.Unlock()
	if hook != nil {
		hook(w, r, s.answer)
		return
	}
	s.answer(w, r)
}

func verb(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case q.Get("sendInitialEvents") == "true":
		return "WATCHLIST"
	case q.Get("watch") != "":
		return "WATCH"
	}
	return r.Method
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	at := parse(r.URL.Path)
	switch {
	case r.Method == http.MethodGet && at.name != "":
		s.mu.Lock()
		defer s.mu.Unlock()
		if obj := s.objects[objectPath(r)]; obj != nil {
			write(w, http.StatusOK, obj)
			return
		}
		Fail(w, http.StatusNotFound, "NotFound")
	case verb(r) != r.Method:
		s.watch(w, r, at)
	case r.Method == http.MethodGet:
		s.list(w, r)
	default:
		s.change(w, r)
	}
}

// objectPath leaves out the subresource.
func objectPath(r *http.Request) string {
	return strings.TrimSuffix(strings.TrimSuffix(r.URL.Path, "/status"), "/")
}

func write(w http.ResponseWriter, code int, obj Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(obj)
}

// seen is how a request wants to see objects, and which.
type seen struct {
	metadata  bool
	selector  labels.Selector
	namespace string // "" for all
	name      string // of the one object; "" for all
}

func seenBy(r *http.Request) seen {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	name, named := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	if !named && name != "" {
		panic("no field but metadata.name is known: " + name)
	}
	return seen{metadata: strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"), selector: selector, namespace: parse(r.URL.Path).namespace, name: name}
}

func (v seen) has(obj Object) bool {
	if obj == nil || v.name != "" && metadata(obj)["name"] != v.name || v.namespace != "" && metadata(obj)["namespace"] != v.namespace {
		return false
	}
	set := labels.Set{}
	if m, ok := metadata(obj)["labels"].(Object); ok {
		for key, value := range m {
			set[key] = fmt.Sprint(value)
		}
	}
	return v.selector.Matches(set)
}

func (v seen) show(obj Object) Object {
	if v.metadata {
		return Object{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
	}
	return obj
}

// list answers in pages; "continue" is how many were sent.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	view, items := seenBy(r), []any{}
	for _, obj := range s.under(r.URL.Path) {
		if view.has(obj) {
			items = append(items, view.show(obj))
		}
	}
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get("continue"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	meta := Object{"resourceVersion": strconv.Itoa(s.version)}
	items = items[from:]
	if limit > 0 && len(items) > limit {
		items = items[:limit]
		meta["continue"] = strconv.Itoa(from + limit)
	}
	kind, version := kindOf(parse(r.URL.Path))
	out := Object{"kind": kind + "List", "apiVersion": version, "metadata": meta, "items": items}
	if view.metadata {
		out["kind"], out["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	write(w, http.StatusOK, out)
}

// watch sends history from a version on, or first all that is there now.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, at location) {
	view, enc := seenBy(r), json.NewEncoder(w)
	send := func(kind string, obj Object) {
		_ = enc.Encode(Object{"type": kind, "object": view.show(obj)})
	}
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch, next := r.Context().Value(epochKey{}), 0
	if verb(r) == "WATCHLIST" {
		s.sendAll(r, view, send)
		next = len(s.history)
	}
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	for next < len(s.history) && s.history[next].version() <= since {
		next++
	}
	for {
		for ; next < len(s.history); next++ {
			if c := s.history[next]; c.resource == at.resource {
				c.send(view, send)
			}
		}
		if any(s.epoch) != epoch || r.Context().Err() != nil {
			return
		}
		moved := s.moved
		s.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-moved:
		case <-r.Context().Done():
		}
		s.mu.Lock()
	}
}

// sendAll sends what there is, and the bookmark that ends it.
func (s *Server) sendAll(r *http.Request, view seen, send func(kind string, obj Object)) {
	for _, obj := range s.under(r.URL.Path) {
		if view.has(obj) {
			send("ADDED", obj)
		}
	}
	kind, version := kindOf(parse(r.URL.Path))
	send("BOOKMARK", Object{"kind": kind, "apiVersion": version, "metadata": Object{
		"resourceVersion": strconv.Itoa(s.version), "annotations": Object{"k8s.io/initial-events-end": "true"},
	}})
}

// kinds are those that are listed or watched in tests.
var kinds = []string{"Node", "Service", "EndpointSlice", "ServiceCIDR", "Deployment", "DeploymentGrid", "Event", "NetworkPolicy", "NodeTable", "ConfigMap"}

// kindOf is what a collection holds, and its apiVersion.
func kindOf(at location) (kind, version string) {
	prefix, resource := path.Split(at.resource)
	for _, kind := range kinds {
		if plural(kind) == resource {
			version = strings.TrimPrefix(strings.TrimPrefix(prefix, "/apis/"), "/api/")
			return kind, strings.TrimSuffix(version, "/")
		}
	}
	panic("apitest does not know the kind of " + at.resource)
}

func (c change) version() int {
	obj := c.is
	if obj == nil {
		obj = c.was
	}
	n, _ := strconv.Atoi(fmt.Sprint(metadata(obj)["resourceVersion"]))
	return n
}

func (c change) send(view seen, send func(kind string, obj Object)) {
	switch was, is := view.has(c.was), view.has(c.is); {
	case was && is:
		send("MODIFIED", c.is)
	case is:
		send("ADDED", c.is)
	case was:
		send("DELETED", c.was)
	}
}

// body reads what was sent as JSON, YAML or protobuf.
func body(r *http.Request) (any, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		obj, kind, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			return nil, err
		}
		out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, err
		}
		out["apiVersion"], out["kind"] = kind.GroupVersion().String(), kind.Kind
		return clone(out), nil
	}
	var out any
	return out, yaml.Unmarshal(data, &out)
}
