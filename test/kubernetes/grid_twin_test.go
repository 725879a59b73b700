package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/lead"
	"github.com/gridmesh/gridmesh/kube/objects"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// The real API server passes the suite of its twin in memory, which the tests
// of the grid controller run against.
func TestGridAPIServerConforms(t *testing.T) {
	client, err := kube.Connect(administrator(t), "test", kube.Rate{QPS: 200, Burst: 400})
	must(t, err)
	crds, err := apiv1.CRDs()
	must(t, err)
	must(t, (&lead.CRDs{Client: client, Manifests: crds, Manager: plan.Manager, Same: plan.Same}).Install(patient(t)))
	resources := map[string]plan.Watched{}
	for _, w := range plan.Watches() {
		resources[w.Kind] = w
	}
	mirror := objects.NewMirror(client, grid.Kinds(), plan.Prune)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if err := mirror.Run(ctx, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-ready:
	case <-time.After(wait.Patience):
		t.Fatal("nothing is mirrored")
	}
	admin, err := dynamic.NewForConfig(c.RESTConfig())
	must(t, err)
	_, err = c.Kubectl("create", "namespace", "twin")
	must(t, err)
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "namespace", "twin", "--wait=false")
		must(t, err)
	})
	gridtest.Conformance(t, func(*testing.T) gridtest.System {
		return gridtest.System{
			API: mirror, Mirror: mirror, Namespace: "twin",
			Create: func(t *testing.T, obj plan.Object, manager string) {
				u := &unstructured.Unstructured{Object: obj}
				_, err := admin.Resource(resources[u.GetKind()].Resource).Namespace(u.GetNamespace()).Create(patient(t), u, metav1.CreateOptions{FieldManager: manager})
				must(t, err)
			},
			Stored: func(t *testing.T, name string) plan.Object {
				u, err := admin.Resource(resources["Deployment"].Resource).Namespace("twin").Get(patient(t), name, metav1.GetOptions{})
				must(t, err)
				return u.Object
			},
		}
	})
}

// administrator is a kubeconfig that reaches the API server from the test's own
// network, with all rights.
func administrator(t *testing.T) string {
	t.Helper()
	cfg := c.RESTConfig()
	transport, err := rest.TransportFor(cfg)
	must(t, err)
	target, err := url.Parse(cfg.Host)
	must(t, err)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	})
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: %q}}]}`, server.URL), 0o600))
	return path
}
