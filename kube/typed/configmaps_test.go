package typed_test

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// An API server that forgot a ConfigMap is not believed at once; that it was deleted is.
func TestAListThatLostAConfigMap(t *testing.T) {
	s := apitest.New(t)
	s.Put(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: edge-system}, data: {a: b}}`)
	m := typed.ConfigMaps(s.Client(t), "edge-system", typed.Selection{Fields: "metadata.name=one"}, func(c *corev1.ConfigMap) string { return c.Data["a"] })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	<-m.Ready()
	s.Hook(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		q := r.URL.Query()
		q.Set("fieldSelector", "metadata.name=forgotten")
		r.URL.RawQuery = q.Encode()
		next(w, r)
	})
	s.EndWatches()
	await(t, "the list is doubted, or believed", func() bool { return m.Fault() != nil || len(m.All()) == 0 })
	if got := m.All(); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
	s.Hook(nil)
	await(t, "it is believed again", func() bool { return m.Fault() == nil })
	s.Delete("/api/v1/namespaces/edge-system/configmaps/one")
	await(t, "what is deleted is gone", func() bool { return len(m.All()) == 0 })
}
