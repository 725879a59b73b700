package apitest

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
)

// change answers requests that write.
func (s *Server) change(w http.ResponseWriter, r *http.Request) {
	sent, err := body(r)
	if err != nil {
		Fail(w, http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := objectPath(r)
	obj, _ := sent.(Object)
	if r.Method == http.MethodPost {
		path += fmt.Sprintf("/%s", metadata(obj)["name"])
	}
	live := s.objects[path]
	next, code, reason := decide(r, live, sent)
	if code >= http.StatusBadRequest {
		Fail(w, code, reason)
		return
	}
	if len(r.URL.Query()["dryRun"]) > 0 {
		write(w, code, next)
		return
	}
	s.store(path, next)
	if next == nil {
		write(w, code, live)
		return
	}
	write(w, code, seenBy(r).show(s.objects[path]))
}

// decide returns what becomes of an object, nil for its end, and the status
// of the answer, with the reason where it is a refusal.
func decide(r *http.Request, live Object, sent any) (next Object, code int, reason string) {
	how, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	apply := r.Method == http.MethodPatch && how == "application/apply-patch+yaml"
	obj, _ := sent.(Object)
	switch {
	case r.Method == http.MethodPost && live != nil:
		return nil, http.StatusConflict, "AlreadyExists"
	case r.Method == http.MethodPost, apply && live == nil:
		return obj, http.StatusCreated, ""
	case live == nil:
		return nil, http.StatusNotFound, "NotFound"
	case conflicts(live, metadata(Object{"metadata": obj["metadata"]})), r.Method == http.MethodDelete && conflicts(live, preconditions(obj)):
		return nil, http.StatusConflict, "Conflict"
	case r.Method == http.MethodDelete:
		return nil, http.StatusOK, ""
	case r.Method == http.MethodPut:
		return obj, http.StatusOK, ""
	case how == "application/json-patch+json":
		return jsonPatch(clone(live), sent)
	}
	merged, _ := merge(clone(live), obj).(Object)
	return merged, http.StatusOK, ""
}

func preconditions(options Object) Object {
	p, _ := options["preconditions"].(Object)
	return p
}

// conflicts reports whether a version is wanted and it is another.
func conflicts(live, wanted Object) bool {
	v, ok := wanted["resourceVersion"]
	return ok && v != "" && v != metadata(live)["resourceVersion"]
}

// merge is a merge patch (RFC 7386).
func merge(target, patch any) any {
	changes, ok := patch.(Object)
	if !ok {
		return patch
	}
	out, ok := target.(Object)
	if !ok {
		out = Object{}
	}
	for key, v := range changes {
		if v == nil {
			delete(out, key)
		} else {
			out[key] = merge(out[key], v)
		}
	}
	return out
}

// jsonPatch knows test, add and replace in objects (RFC 6902).
func jsonPatch(obj Object, patch any) (Object, int, string) {
	steps, _ := patch.([]any)
	for _, step := range steps {
		s, _ := step.(Object)
		path := strings.Split(strings.TrimPrefix(fmt.Sprint(s["path"]), "/"), "/")
		last, at := path[len(path)-1], obj
		for _, key := range path[:len(path)-1] {
			at, _ = at[key].(Object)
		}
		if at == nil || s["op"] == "test" && !reflect.DeepEqual(at[last], s["value"]) {
			return nil, http.StatusUnprocessableEntity, "Invalid"
		}
		if s["op"] != "test" {
			at[last] = s["value"]
		}
	}
	return obj, http.StatusOK, ""
}
