package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// healthServer has a unit of two nodes, of which one lost its uplink, on two pages; answers
// has for some paths another code.
func healthServer(t *testing.T, answers map[string]int) (kubeconfig string) {
	t.Helper()
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	node := func(name, ready string, ago time.Duration) string {
		return fmt.Sprintf(`{"metadata": {"name": %q, "labels": {"site": "a"}, "annotations": {"superedgehealth/node-health": "true", "superedgehealth/evidence": "yes=2 no=0 of=2 exact=true cut=%t view=0a by=a-1 at=%s"}},
			"status": {"conditions": [{"type": "Ready", "status": %q, "lastHeartbeatTime": %q, "lastTransitionTime": %q}]}}`, name, ready != "True", at(20*time.Second), ready, at(ago), at(ago))
	}
	lease := func(namespace, name, labels, holder string, ago time.Duration) string {
		return fmt.Sprintf(`{"metadata": {"namespace": %q, "name": %q, "labels": {%s}}, "spec": {"holderIdentity": %q, "renewTime": %q}}`, namespace, name, labels, holder, time.Now().Add(-ago).UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
	}
	list := func(kind, version, next, items string) string {
		return fmt.Sprintf(`{"kind": %q, "apiVersion": %q, "metadata": {"resourceVersion": "1", "continue": %q}, "items": [%s]}`, kind, version, next, items)
	}
	bodies := map[string]string{
		"/readyz":            "ok",
		"/api/v1/nodes":      list("NodeList", "v1", "more", node("a-1", "True", time.Hour)),
		"/api/v1/nodes more": list("NodeList", "v1", "", node("a-2", "Unknown", 10*time.Minute)),
		"/apis/coordination.k8s.io/v1/namespaces/gridmesh/leases gridmesh.io/unit-lease": list("LeaseList", "coordination.k8s.io/v1", "", lease("gridmesh", "edge-health-a", `"gridmesh.io/unit-lease": "a"`, "a-1", 3*time.Second)),
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases":                 list("LeaseList", "coordination.k8s.io/v1", "", lease("kube-node-lease", "a-1", "", "a-1", 4*time.Second)),
		"/apis/gridmesh.io/v1/namespaces/gridmesh/nodetables/gridmesh-shield":            fmt.Sprintf(`{"kind": "NodeTable", "apiVersion": "gridmesh.io/v1", "metadata": {"name": "gridmesh-shield"}, "data": {"a-2": %q}}`, at(-290*time.Second)),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		key := strings.TrimSpace(r.URL.Path + " " + q.Get("continue") + q.Get("labelSelector"))
		body, known := bodies[key]
		if !known {
			t.Errorf("it was asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		if code := answers[r.URL.Path]; code != 0 {
			w.WriteHeader(code)
			reason := map[int]string{403: "Forbidden", 404: "NotFound"}[code]
			body = fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": %q, "code": %d}`, reason, code)
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return kubeconfigOf(t, server.URL)
}

// A cluster is asked for all pages of Nodes, for the Leases of units and kubelets, and for the
// list of shielded nodes; what it has not, or hides, is said.
func TestHealthOfACluster(t *testing.T) {
	const (
		shield = "/apis/gridmesh.io/v1/namespaces/gridmesh/nodetables/gridmesh-shield"
		beats  = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
		units  = "/apis/coordination.k8s.io/v1/namespaces/gridmesh/leases"
	)
	const cure = "; gridmesh health is for people, and no program of gridmesh's has the rights: it lists nodes, lists leases in the namespaces gridmesh and kube-node-lease, and gets the nodetable gridmesh-shield; run it by an administrator's kubeconfig"
	for name, tt := range map[string]struct {
		answers   map[string]int
		code      int
		out, note string
	}{
		"all is there":         {nil, 0, "1 shielded\n", ""},
		"no list":              {map[string]int{shield: 404}, 1, "problem: shield gridmesh/gridmesh-shield: is not there, or empty, and these are to be kept: a-2", ""},
		"heartbeats are not":   {map[string]int{beats: 403}, 0, "1 shielded\n", "note: heartbeats are as old as Nodes have them, minutes perhaps: list leases in namespace kube-node-lease"},
		"Leases are not told":  {map[string]int{units: 403}, 1, "", "list leases in namespace gridmesh"},
		"nor is the cure":      {map[string]int{units: 403}, 1, "", cure},
		"Nodes are not":        {map[string]int{"/api/v1/nodes": 403}, 1, "", cure},
		"the list is not told": {map[string]int{shield: 403}, 1, "", "get the list of shielded nodes: read NodeTable gridmesh/gridmesh-shield"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, log := gridmesh(t, "health", "--kubeconfig", healthServer(t, tt.answers))
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(log, tt.note) || (tt.note == "" && tt.code == 0) != (log == "") {
				t.Errorf("code %d\n%s%s", code, out, log)
			}
		})
	}
	code, out, log := gridmesh(t, "health", "--kubeconfig", healthServer(t, nil), "-o", "wide")
	row := regexp.MustCompile(`\na-1 +a +well, 2 of 2 see it, [0-9]+s ago +Ready 1h0m +- +- +[0-9]+s +- +a-1\n`) // its heartbeat is its Lease's
	if code != 0 || !row.MatchString(out) || log != "" {
		t.Errorf("code %d\n%s%s", code, out, log)
	}
}

// What docs/health.md shows is what a story prints.
func TestHealthPageShowsAStory(t *testing.T) {
	page, err := os.ReadFile("../../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	story, err := txtar.ParseFile("testdata/story/health-uplink-lost.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"want", "one"} {
		i := slices.IndexFunc(story.Files, func(f txtar.File) bool { return f.Name == name })
		if i < 0 || !strings.Contains(string(page), "\n```\n"+string(story.Files[i].Data)+"```\n") {
			t.Errorf("the page does not show %q of the story", name)
		}
	}
}
