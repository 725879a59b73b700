package objects

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// Of a kind of one name in one namespace nothing else is asked for, so that a right to
// that one object is enough: an API server grants a list or a watch by resourceNames
// where the field selector names one.
func TestOneObject(t *testing.T) {
	one := Kind{Resource: deployments.Resource, Kind: "Deployment", Namespace: "default", Name: "web"}
	const path = "/apis/apps/v1/namespaces/default/deployments"
	s := apitest.New(t)
	var mu sync.Mutex
	var beyond []string
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if r.URL.Path != path || r.URL.Query().Get("fieldSelector") != "metadata.name=web" {
			mu.Lock()
			beyond = append(beyond, r.URL.String())
			mu.Unlock()
			apitest.Fail(w, http.StatusForbidden, "Forbidden")
			return
		}
		next(w, r)
	})
	put(t, s, "web", "spec: {replicas: 1}")
	put(t, s, "db", "spec: {replicas: 1}")
	s.Put(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: other, name: web}}`)
	m := NewMirror(s.Client(t), []Kind{one}, prune)
	run(t, s, m)
	if got := changes(t, m); !slices.Equal(got, []string{"Deployment default/web"}) {
		t.Errorf("at the start %q changed", got)
	}
	s.Put(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: other, name: web}, spec: {replicas: 2}}`)
	put(t, s, "db", "spec: {replicas: 2}")
	put(t, s, "web", "spec: {replicas: 2}")
	if got := changes(t, m); !slices.Equal(got, []string{"Deployment default/web"}) {
		t.Errorf("%q changed", got)
	}
	list, err := List(context.Background(), s.Client(t), []Kind{one})
	if err != nil || len(list) != 1 || !strings.Contains(fmt.Sprint(list), "name:web") {
		t.Errorf("listed: %v, %v", list, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(beyond) > 0 {
		t.Errorf("asked for more: %q", beyond)
	}
}
