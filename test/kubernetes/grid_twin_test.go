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
	"strings"
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
	rewrites(t, "twin")
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

// rewrites has the API server set a field of gridtest.Rewritten of a namespace.
func rewrites(t *testing.T, namespace string) {
	t.Helper()
	selector := "objectSelector: {matchLabels: {superedge.io/grid-selector: settled}}"
	policy := strings.NewReplacer("last-word", "last-word-twin", selector, fmt.Sprintf("namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}", namespace),
		"  mutations:", fmt.Sprintf("  matchConditions: [{name: one, expression: \"object.metadata.name == '%s'\"}]\n  mutations:", gridtest.Rewritten)).Replace(lastWord)
	applied(t, policy, "mutatingadmissionpolicy/last-word-twin", "mutatingadmissionpolicybinding/last-word-twin")
	wait.Eventually(t, func() error { // a policy is in force a moment after it is stored
		seen, err := c.Kubectl("create", "deployment", gridtest.Rewritten, "-n", namespace, "--image=x", "--dry-run=server", "-o", "jsonpath={.spec.minReadySeconds}")
		if err == nil && strings.TrimSpace(seen) != "1" {
			err = fmt.Errorf("minReadySeconds is %q", seen)
		}
		return err
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
