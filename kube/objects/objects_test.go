package objects

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go speaks of every fault that is made here
	goleak.VerifyTestMain(m)
}

var deployments = Kind{Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Kind: "Deployment", Selector: "app"}

const web = "/apis/apps/v1/namespaces/default/deployments/web"

func put(t *testing.T, s *apitest.Server, name, more string) {
	t.Helper()
	s.Put(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: %s, labels: {app: x}}, secret: s, %s}`, name, more))
}

// prune stands in for what a controller does not need.
func prune(obj map[string]any) { delete(obj, "secret") }

// mirrored runs a mirror of deployments until the test ends, and returns it
// when everything is listed.
func mirrored(t *testing.T, s *apitest.Server) *Mirror {
	t.Helper()
	m := NewMirror(s.Client(t), []Kind{deployments}, prune)
	run(t, s, m)
	return m
}

// run runs a mirror until the test ends, and returns when everything is listed.
func run(t *testing.T, s *apitest.Server, m *Mirror) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- m.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case <-time.After(20 * time.Second):
		t.Fatal("the mirror is not ready")
	}
}

// changes waits for a wake-up and returns what changed, sorted.
func changes(t *testing.T, m *Mirror) (list []string) {
	t.Helper()
	select {
	case <-m.Wake():
	case <-time.After(20 * time.Second):
		t.Fatal("no change was noticed")
	}
	m.Changes(func(kind, namespace, name string) { list = append(list, kind+" "+namespace+"/"+name) })
	slices.Sort(list)
	return list
}

func TestMirrorKnowsWhatChanged(t *testing.T) {
	s := apitest.New(t)
	put(t, s, "web", "spec: {replicas: 1}")
	put(t, s, "db", "spec: {replicas: 1}")
	s.Put(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: strange}}`)
	m := mirrored(t, s)
	if got := changes(t, m); !slices.Equal(got, []string{"Deployment default/db", "Deployment default/web"}) {
		t.Errorf("at the start %q changed", got)
	}
	if obj := m.Get("Deployment", "default", "web"); obj == nil || obj["secret"] != nil || obj["spec"] == nil {
		t.Errorf("the mirror holds %v, pruned it should be", obj)
	}
	if obj := m.Get("Deployment", "default", "strange"); obj != nil {
		t.Errorf("the mirror holds %v, which was not selected", obj)
	}

	// What is the same but for its version, once pruned, is no change.
	put(t, s, "db", "spec: {replicas: 1}, metadata2: 1")
	if got := changes(t, m); !slices.Equal(got, []string{"Deployment default/db"}) {
		t.Errorf("%q changed", got)
	}
	uid := s.Get(web)["metadata"].(apitest.Object)["uid"]
	s.Put(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: web, uid: %s, labels: {app: x}}, secret: other, spec: {replicas: 1}}`, uid))
	s.Delete("/apis/apps/v1/namespaces/default/deployments/db")
	if got := changes(t, m); !slices.Equal(got, []string{"Deployment default/db"}) {
		t.Errorf("%q changed, of which web in nothing but its version", got)
	}
	if obj := m.Get("Deployment", "default", "db"); obj != nil {
		t.Errorf("the mirror still holds %v", obj)
	}
	m.Changes(func(kind, namespace, name string) { t.Errorf("%s %s/%s changed twice", kind, namespace, name) })
}

// A mirror that ends before everything was listed is never ready.
func TestMirrorEndsBeforeItIsReady(t *testing.T) {
	s := apitest.New(t)
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		apitest.Fail(w, http.StatusForbidden, "Forbidden")
	})
	m := NewMirror(s.Client(t), []Kind{deployments}, prune)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := m.Run(ctx, func() { t.Error("ready without a list") }); err != nil {
		t.Error(err)
	}
}

func TestWrites(t *testing.T) {
	s := apitest.New(t)
	m := NewMirror(s.Client(t), []Kind{deployments}, prune)
	ctx := t.Context()
	made, err := m.Apply(ctx, map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "secret": "s",
		"metadata": map[string]any{"namespace": "default", "name": "web"}, "spec": map[string]any{"replicas": int64(1)},
	}, "gridmesh")
	if err != nil || made["secret"] != nil || made["spec"] == nil {
		t.Fatalf("applied %v, %v", made, err)
	}
	uid := made["metadata"].(map[string]any)["uid"].(string)
	if got, err := m.Merge(ctx, "Deployment", "default", "web", map[string]any{"spec": map[string]any{"paused": true}}); err != nil || got["secret"] != nil {
		t.Errorf("merged %v, %v", got, err)
	}
	var bare atomic.Bool
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		bare.Store(bare.Load() || strings.HasSuffix(r.URL.Path, "/status") && strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"))
		next(w, r)
	})
	if err := m.WriteStatus(ctx, "Deployment", "default", "web", uid, map[string]any{"units": 3}); err != nil {
		t.Error(err)
	}
	if n := s.Count("PATCH " + web + "/status"); n != 1 {
		t.Errorf("the status was written %d times", n)
	}
	if !bare.Load() {
		t.Error("with the status the whole object came back")
	}
	live, err := m.Live(ctx, "Deployment", "default", "web")
	if got := fmt.Sprint(live["spec"], live["status"], live["secret"]); err != nil || got != "map[paused:true replicas:1] map[units:3] <nil>" {
		t.Errorf("then it is %s, %v", got, err)
	}
	if err := m.Delete(ctx, "Deployment", "default", "web", ""); err != nil || s.Get(web) != nil {
		t.Errorf("deleted: %v", err)
	}
	if live, err := m.Live(ctx, "Deployment", "default", "web"); live != nil || err != nil {
		t.Errorf("one that is gone: %v, %v", live, err)
	}
	if err := m.Delete(ctx, "Deployment", "default", "web", ""); err != nil {
		t.Errorf("one that is gone was deleted with: %v", err)
	}
}

// A write that names another version than there is changes nothing, and says
// so, as does a status for another object of the same name.
func TestWritesConflict(t *testing.T) {
	s := apitest.New(t)
	put(t, s, "web", "spec: {replicas: 1}")
	m := NewMirror(s.Client(t), []Kind{deployments}, prune)
	ctx, before := t.Context(), fmt.Sprint(s.Get(web))
	stale := map[string]any{"resourceVersion": "0", "namespace": "default", "name": "web"}
	_, applied := m.Apply(ctx, map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": stale}, "gridmesh")
	_, merged := m.Merge(ctx, "Deployment", "default", "web", map[string]any{"metadata": stale})
	deleted := m.Delete(ctx, "Deployment", "default", "web", "0")
	for what, err := range map[string]error{"apply": applied, "merge": merged, "delete": deleted} {
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "Deployment default/web") {
			t.Errorf("%s: %v, want a conflict that names the object", what, err)
		}
	}
	if err := m.WriteStatus(ctx, "Deployment", "default", "web", "another", map[string]any{}); !apierrors.IsInvalid(err) {
		t.Errorf("status of another object: %v", err)
	}
	if _, err := m.Merge(ctx, "Deployment", "default", "none", map[string]any{}); !apierrors.IsNotFound(err) {
		t.Errorf("merge into what is not there: %v", err)
	}
	if after := fmt.Sprint(s.Get(web)); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// 429 with Retry-After is what API priority and fairness says; the client
// waits and tries again, and reports it where it lasts.
func TestWritesWaitWhereTheyAreToldTo(t *testing.T) {
	s := apitest.New(t)
	put(t, s, "web", "")
	m := NewMirror(s.Client(t), []Kind{deployments}, prune)
	var asked atomic.Int64
	tooMany := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "0")
		apitest.Fail(w, http.StatusTooManyRequests, "TooManyRequests")
	}
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if asked.Add(1) < 3 {
			tooMany(w)
			return
		}
		next(w, r)
	})
	if _, err := m.Merge(t.Context(), "Deployment", "default", "web", map[string]any{"spec": map[string]any{}}); err != nil || asked.Load() != 3 {
		t.Errorf("after %d requests: %v", asked.Load(), err)
	}
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { tooMany(w) })
	if _, err := m.Merge(t.Context(), "Deployment", "default", "web", nil); !apierrors.IsTooManyRequests(err) {
		t.Errorf("where it lasts: %v", err)
	}
}

// An answer that is lost is an error, though the write was done: who wrote
// reads again, and the same write again does no harm.
func TestLostAnswersAreErrors(t *testing.T) {
	s := apitest.New(t)
	m := NewMirror(s.Client(t), []Kind{deployments}, prune)
	s.Hook(func(_ http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		next(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	obj := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "default", "name": "web"}}
	if _, err := m.Apply(t.Context(), obj, "gridmesh"); err == nil {
		t.Error("no answer is no error")
	}
	s.Hook(nil)
	if s.Get(web) == nil {
		t.Error("the write was not done")
	}
	if _, err := m.Apply(t.Context(), obj, "gridmesh"); err != nil {
		t.Error(err)
	}
}

// What an older program wrote by updates is the new manager's, so that it can
// leave it out.
func TestTakeOver(t *testing.T) {
	s := apitest.New(t)
	put(t, s, "web", "")
	m := NewMirror(s.Client(t), []Kind{deployments}, prune)
	if err := m.TakeOver(t.Context(), "Deployment", "default", "web", "old", "gridmesh"); err != nil || s.Count("PATCH "+web) != 0 {
		t.Errorf("with nothing to take over: %v, %d writes", err, s.Count("PATCH "+web))
	}
	s.Put(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: web, managedFields: [
  {manager: old, operation: Update, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}}}}]}, spec: {replicas: 1}}`)
	if err := m.TakeOver(t.Context(), "Deployment", "default", "web", "old", "gridmesh"); err != nil {
		t.Fatal(err)
	}
	fields := fmt.Sprint(s.Get(web)["metadata"].(apitest.Object)["managedFields"])
	if !strings.Contains(fields, "manager:gridmesh operation:Apply") || strings.Contains(fields, "manager:old") {
		t.Errorf("the fields belong to %s", fields)
	}
	if err := m.TakeOver(t.Context(), "Deployment", "default", "none", "old", "gridmesh"); !apierrors.IsNotFound(err) {
		t.Errorf("of what is not there: %v", err)
	}
}

func TestListAndMergeOnce(t *testing.T) {
	s := apitest.New(t)
	c := s.Client(t)
	for i := range kube.PageSize + 1 {
		put(t, s, fmt.Sprintf("web-%d", i), "")
	}
	s.Put(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: strange}}`)
	got, err := List(t.Context(), c, []Kind{deployments})
	if err != nil || len(got) != kube.PageSize+1 || s.Count("GET /apis/apps/v1/deployments") != 2 {
		t.Errorf("%d objects in %d pages: %v", len(got), s.Count("GET /apis/apps/v1/deployments"), err)
	}
	const at = "/apis/apps/v1/namespaces/default/deployments/web-0"
	patch := []byte(`{"spec": {"paused": true}}`)
	if err := Merge(t.Context(), c, deployments, "default", "web-0", patch, "gridmesh", "All"); err != nil || s.Get(at)["spec"] != nil {
		t.Errorf("a dry run: %v, and then there is %v", err, s.Get(at))
	}
	if err := Merge(t.Context(), c, deployments, "default", "web-0", patch, "gridmesh"); err != nil || s.Get(at)["spec"] == nil {
		t.Errorf("merge: %v, and then there is %v", err, s.Get(at))
	}
	s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		apitest.Fail(w, http.StatusNotFound, "NotFound")
	})
	if _, err := List(t.Context(), c, []Kind{deployments}); err == nil || !strings.Contains(err.Error(), "is gridmesh-controller installed?") {
		t.Errorf("a kind that the cluster does not know: %v", err)
	}
}
