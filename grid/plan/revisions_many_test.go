package plan

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// Who may make ControllerRevisions makes as many as he likes, with any number: they cost
// others nothing, and what is being removed is not removed again.
func TestRevisionsThatOthersMade(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	grid := Object{
		"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "metadata": Object{"namespace": "default", "name": "till", "uid": "u1", "generation": int64(1), "resourceVersion": "7"},
		"spec": Object{"gridUniqKey": "site", "template": Object{
			"selector": Object{"matchLabels": Object{"app": "till"}},
			"template": Object{"metadata": Object{"labels": Object{"app": "till"}}, "spec": Object{"containers": []any{Object{"name": "c", "image": "i"}}}},
		}},
	}
	w := World{Grids: []Object{grid}, Nodes: []Object{{"apiVersion": "v1", "kind": "Node", "metadata": Object{"name": "n", "labels": Object{"site": "a"}}}}}
	for i := range 300 {
		metadata := Object{
			"namespace": "default", "name": fmt.Sprintf("forged-%03d", i), "resourceVersion": "1",
			"ownerReferences": []any{Object{"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "name": "till", "uid": "u1", "controller": true}},
		}
		if i < 100 {
			metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}
		w.Revisions = append(w.Revisions, Object{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": math.MaxInt64 - int64(i)})
	}
	x := indexOf(w)
	g := x.grids[Ref{"DeploymentGrid", "default", "till"}]
	if n := len(g.lookedAt()); n != 2*historyLimit {
		t.Errorf("%d are looked at for each child", n)
	}
	p := All(w, DefaultGuard(), now)[0]
	if len(p.Expired) != mostExpired || p.Expired[0] != "forged-100" {
		t.Errorf("removed at a time: %v", p.Expired)
	}
	if p.Revision == nil || p.Revision.number != math.MaxInt64 {
		t.Errorf("the next number: %+v", p.Revision)
	}
	x.deleteRevision(Ref{RevisionKind, "default", "forged-000"})
	if first := g.lookedAt()[0].Name; first != "forged-001" {
		t.Errorf("after one is gone the first is %s", first)
	}
}
