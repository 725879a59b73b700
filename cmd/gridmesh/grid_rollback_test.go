package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// twoBadChanges is a grid whose third revision is in unit a, as the second was before, and
// whose first is in the other four. No controller has looked at it.
func twoBadChanges() (w plan.World) {
	type object = map[string]any
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, unit := range []string{"a", "b", "c", "d", "e"} {
		w.Nodes = append(w.Nodes, object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "node-" + unit, "labels": object{"site": unit}}})
	}
	children := map[string]object{}
	for i, image := range []string{"good", "bad", "worse"} {
		pods := object{"metadata": object{"labels": object{"app": "till"}}, "spec": object{"containers": []any{object{"name": "c", "image": image}}}}
		w.Grids = []object{{
			"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "metadata": object{"namespace": "default", "name": "till", "uid": "u1", "generation": int64(i + 1), "resourceVersion": "7"},
			"spec": object{"gridUniqKey": "site", "template": object{"selector": object{"matchLabels": object{"app": "till"}}, "template": pods}},
		}}
		p := plan.All(plan.World{Nodes: w.Nodes, Grids: w.Grids}, plan.DefaultGuard(), now)[0]
		revision := p.Revision.Object()
		revision["revision"] = int64(i + 1)
		w.Revisions = append(w.Revisions, revision)
		for _, s := range p.Steps {
			if i == 0 || s.Unit == "a" {
				children[s.Unit] = s.Object(now)
			}
		}
	}
	for _, child := range children {
		w.Children = append(w.Children, child)
	}
	return w
}

// gridServer is an API server that has these objects, and refuses so many patches of the
// grid before it takes one, for somebody wrote its status.
func gridServer(t *testing.T, w plan.World, conflicts int) (kubeconfig string) {
	t.Helper()
	lists := map[string][]map[string]any{
		"/api/v1/nodes": w.Nodes, "/apis/superedge.io/v1/" + strings.ToLower(w.Grids[0]["kind"].(string)) + "s": w.Grids,
		"/apis/apps/v1/deployments": w.Children, "/apis/apps/v1/controllerrevisions": w.Revisions,
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fail := func(code int, reason string) {
			rw.WriteHeader(code)
			fmt.Fprintf(rw, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d}`, reason, code)
		}
		switch {
		case r.Method == http.MethodPatch && conflicts > 0:
			conflicts--
			fail(http.StatusConflict, "Conflict")
		case r.Method == http.MethodPatch:
			_ = json.NewEncoder(rw).Encode(w.Grids[0])
		case r.URL.Query().Get("sendInitialEvents") != "": // as one that has no watch-lists
			fail(http.StatusUnprocessableEntity, "Invalid")
		default:
			items := lists[r.URL.Path]
			if items == nil {
				items = []map[string]any{}
			}
			_ = json.NewEncoder(rw).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
		}
	}))
	t.Cleanup(server.Close)
	return kubeconfigOf(t, server.URL)
}

// Who has made two bad changes goes back to the other bad one unless told that hardly
// anybody bears that, and what the others bear.
func TestHistoryTellsWhoBearsWhat(t *testing.T) {
	kubeconfig := gridServer(t, twoBadChanges(), 0)
	code, out, log := gridmesh(t, "grid", "history", "till", "--kubeconfig", kubeconfig)
	var units []string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		cells := strings.Fields(line)
		units = append(units, cells[0]+" "+strings.Join(cells[4:], " "))
	}
	if want := "REVISION UNITS|3 1: a|2 0|1 4: b, c, d and 1 more"; code != 0 || strings.Join(units, "|") != want {
		t.Errorf("code %d: %q, want %q: %s%s", code, units, want, out, log)
	}
	_, out, _ = gridmesh(t, "grid", "history", "till", "--kubeconfig", kubeconfig, "-o", "json")
	var rows []revisionRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 3 || strings.Join(rows[2].Units, "") != "bcde" || !strings.Contains(out, `"units":[]`) {
		t.Errorf("%v: %s", err, out)
	}
	for _, c := range []struct {
		args      []string
		out, note string
	}{
		{
			nil, "goes back from revision 3 to revision 2, which 0 of 5 units bear now\n",
			"note: gridmesh grid history has others, for --to-revision: revision 1 is what 4 of 5 units bear now\n",
		},
		{[]string{"--to-revision", "1", "--dry-run"}, "goes back from revision 3 to revision 1 (dry run), which 4 of 5 units bear now\n", ""},
	} {
		code, out, log := gridmesh(t, append([]string{"grid", "rollback", "till", "--kubeconfig", kubeconfig}, c.args...)...)
		if code != 0 || !strings.HasSuffix(out, c.out) || !strings.Contains(log, c.note) || strings.Contains(log, "has others") != (c.note != "") {
			t.Errorf("%v: code %d: %s%s", c.args, code, out, log)
		}
	}
}

// A rollback that is tried again because a status was written meanwhile says what it has to
// say once.
func TestNotesAreSaidOnce(t *testing.T) {
	code, out, log := gridmesh(t, "grid", "rollback", "till", "--kubeconfig", gridServer(t, twoBadChanges(), 3))
	if code != 0 || !strings.Contains(out, "goes back") || strings.Count(log, "note: no controller has looked at deploymentgrid default/till yet") != 1 {
		t.Errorf("code %d: %s%s", code, out, log)
	}
}

// A ServiceGrid has no templates, and so nothing to go back to.
func TestAServiceGridHasNoRevisions(t *testing.T) {
	w := twoBadChanges()
	w.Revisions, w.Children = nil, nil
	w.Grids[0]["kind"], w.Grids[0]["spec"] = "ServiceGrid", map[string]any{"gridUniqKey": "site", "template": map[string]any{"selector": map[string]any{"app": "till"}, "ports": []any{map[string]any{"port": int64(80)}}}}
	kubeconfig := gridServer(t, w, 0)
	const none = "servicegrid default/till has no revisions, and never has: it has no templates"
	if code, out, log := gridmesh(t, "grid", "history", "sg/till", "--kubeconfig", kubeconfig, "-o", "json"); code != 0 || out != "[]\n" || !strings.Contains(log, "note: "+none+"\n") {
		t.Errorf("code %d: %s%s", code, out, log)
	}
	if code, out, log := gridmesh(t, "grid", "rollback", "sg/till", "--kubeconfig", kubeconfig); code != 1 || !strings.Contains(log, "there is no such revision: "+none+"\n") {
		t.Errorf("code %d: %s%s", code, out, log)
	}
}

// A unit's name is what somebody wrote into an annotation: it makes no note of its own.
func TestNotesAreOneLine(t *testing.T) {
	w := twoBadChanges()
	for _, child := range w.Children {
		metadata := child["metadata"].(map[string]any)
		metadata["annotations"] = map[string]any{"gridmesh.io/unit": "a\x1b[2J\nnote: all is well"}
	}
	_, _, log := gridmesh(t, "grid", "history", "till", "--kubeconfig", gridServer(t, w, 0))
	if !strings.Contains(log, `a\x1b[2J\nnote: all is well`) || strings.Contains(log, "\nnote: all") {
		t.Errorf("%q", log)
	}
}
