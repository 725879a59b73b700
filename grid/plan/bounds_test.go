package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// worldOfUnits is one grid in n units with the longest names, every second of
// them in trouble.
func worldOfUnits(n int) World {
	name := strings.Repeat("g", 63)
	w := World{Grids: []Object{{
		"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "metadata": Object{"name": name, "namespace": "default", "uid": "u", "generation": int64(1)},
		"spec": Object{"gridUniqKey": "site", "template": Object{"selector": Object{"matchLabels": Object{"app": "x"}}, "template": Object{"metadata": Object{"labels": Object{"app": "x"}}}}},
	}}}
	for i := range n {
		unit := fmt.Sprintf("%s-%06d", strings.Repeat("u", 56), i)
		w.Nodes = append(w.Nodes, Object{"kind": "Node", "metadata": Object{"name": unit, "labels": Object{"site": unit}}})
		w.Children = append(w.Children, Object{
			"kind": "Deployment",
			"metadata": Object{
				"name": hashedName(name, unit), "namespace": "default", "labels": Object{"superedge.io/grid-selector": name, "superedge.io/grid-uniq-key": "site"},
				"annotations":     Object{"gridmesh.io/unit": unit, "gridmesh.io/applied": "old"},
				"ownerReferences": []any{Object{"kind": "DeploymentGrid", "name": name, "uid": "u", "controller": true}},
			},
			"status": Object{"observedGeneration": int64(1 << 40), "replicas": int64(1 << 30), "readyReplicas": int64(i % 2), "updatedReplicas": int64(1 << 30), "availableReplicas": int64(1 << 30), "conditions": []any{Object{"type": "Available", "status": "Unknown"}}},
		})
	}
	return w
}

// A status stays below 64 KB however many units there are, with SuperEdge's
// states up to 200.
func TestStatusStaysSmall(t *testing.T) {
	for _, n := range []int{1, 200, 201, 12000} {
		plans := All(worldOfUnits(n), DefaultGuard(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		st := plans[0].Workload
		data, err := json.Marshal(st)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d units: %d bytes, %d states, %d of the worst", n, len(data), len(st.States), len(st.Worst))
		if len(data) > 64<<10 || st.Units != int64(n) || len(st.Worst) != min(n, 20) || (len(st.States) == n) != (n <= 200) {
			t.Errorf("%d units: %d bytes, %+v", n, len(data), st.Units)
		}
	}
}

// Ten revisions besides the current one are kept, and one that comes back is
// the newest again.
func TestRevisionsAreBounded(t *testing.T) {
	c := newCluster(1)
	grid := worldOfUnits(0).Grids[0]
	change := func(image int) []Revision {
		next := clone(grid)
		ensure(next, "spec", "template", "template", "spec")["containers"] = []any{Object{"image": fmt.Sprint("v", image)}}
		c.x.Delete(RefOf(grid))
		for _, ref := range c.refs("ControllerRevision") {
			c.x.Set(c.objects[ref])
		}
		c.set(next)
		c.carryOut(c.plan(t))
		var objects []Object
		for _, ref := range c.refs("ControllerRevision") {
			objects = append(objects, c.objects[ref])
		}
		return Revisions("u", objects)
	}
	var list []Revision
	for i := range 15 {
		list = change(i)
	}
	if len(list) != 11 || list[0].Number != 15 || list[10].Number != 5 {
		t.Fatalf("%d revisions, from %d to %d", len(list), list[0].Number, list[len(list)-1].Number)
	}
	if list = change(9); len(list) != 11 || list[0].Number != 16 {
		t.Fatalf("%d revisions, the newest is %d", len(list), list[0].Number)
	}
	patch, err := RollbackPatch(c.objects[RefOf(grid)], list[1])
	if err != nil || !strings.Contains(string(patch), `"image":"v14"`) {
		t.Errorf("patch %s: %v", patch, err)
	}
}
