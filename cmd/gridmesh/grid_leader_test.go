package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Where nobody acts on grids, list and units say so, and by what they know it; who may not
// ask for Leases knows nothing of that.
func TestNoControllerAnswers(t *testing.T) {
	lists := map[string]string{
		"/api/v1/nodes": `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"site": "north"}}}`,
		"/apis/superedge.io/v1/deploymentgrids": `{"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "metadata": {"name": "till", "namespace": "default", "uid": "u1", "generation": 1},
			"spec": {"gridUniqKey": "site", "template": {"selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}}}}}}`,
	}
	lease := func(holder string, renewed time.Time) string {
		return fmt.Sprintf(`{"metadata": {"name": "gridmesh-controller", "namespace": "edge"}, "spec": {"holderIdentity": %q, "leaseDurationSeconds": 15, "renewTime": %q}}`, holder, renewed.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
	}
	for name, tc := range map[string]struct {
		lease, want string
		code        int
	}{
		"none":      {"", "there is no Lease gridmesh-controller", 200},
		"released":  {lease("", time.Now()), "nobody holds the Lease edge/gridmesh-controller", 200},
		"stale":     {lease("a", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), "the Lease edge/gridmesh-controller was renewed last at 2026-01-01T00:00:00Z", 200},
		"held":      {lease("a", time.Now()), "", 200},
		"forbidden": {"", "", 403},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				items, code, kind := lists[r.URL.Path], 200, `"kind": "List", "apiVersion": "v1"`
				switch {
				case r.URL.Query().Get("sendInitialEvents") != "": // as one that has no watch-lists
					code = 422
				case r.URL.Path == "/apis/coordination.k8s.io/v1/leases":
					kind = `"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1"`
					if items, code = tc.lease, tc.code; r.URL.Query().Get("fieldSelector") != "metadata.name=gridmesh-controller" {
						t.Errorf("it was asked for %s", r.URL)
					}
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				if code != 200 {
					fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d}`, code)
					return
				}
				fmt.Fprintf(w, `{%s, "metadata": {"resourceVersion": "1"}, "items": [%s]}`, kind, items)
			}))
			t.Cleanup(server.Close)
			path := kubeconfigOf(t, server.URL)
			for _, args := range [][]string{{"grid", "list"}, {"grid", "units", "till"}} {
				_, out, log := gridmesh(t, append(args, "--kubeconfig", path)...)
				note := "note: no controller is seen to act: " + tc.want + "; see that gridmesh-controller runs, or, where it goes by another Lease (--leader-elect-resource-name) or by none, see its log\n"
				if !strings.Contains(out, "Missing") || strings.Contains(log, "no controller is seen to act") != (tc.want != "") || tc.want != "" && !strings.Contains(log, note) {
					t.Errorf("%v:\n%s%s", args, out, log)
				}
				if args[1] == "units" && strings.Contains(out, "no controller is seen to act: "+tc.want) != (tc.want != "") {
					t.Errorf("the unit does not say why:\n%s", out)
				}
			}
		})
	}
}
