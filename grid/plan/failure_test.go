package plan

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// What a write met decides how a rollout goes on: a refusal stops it until the
// spec changes, anything else is tried again, and no other wave begins.
func TestFailuresHoldTheRollout(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := worldOfUnits(4)
	x := NewIndex()
	for _, list := range [][]Object{w.Nodes, w.Children} {
		for _, obj := range list {
			ready := clone(obj)
			if status := value[Object](ready, "status"); status != nil {
				status["readyReplicas"] = int64(1)
			}
			x.Set(ready)
		}
	}
	grid := clone(w.Grids[0])
	value[Object](grid, "spec")["rollout"] = Object{"maxUnits": int64(1)}
	x.Set(grid)
	ref := RefOf(grid)
	hash := ""
	plan := func() (Plan, map[Action]string) {
		p, _ := x.Plan(ref, DefaultGuard(), now)
		x.CommitStatus(p)
		by := map[Action]string{}
		for _, s := range p.Steps {
			if s.Action == Update {
				hash = s.Hash()
			}
			by[s.Action] += s.Unit[len(s.Unit)-1:]
		}
		return p, by
	}
	unit := w.Nodes[0]["metadata"].(Object)["name"].(string)
	if _, by := plan(); by[Update] != "0" || by[Wait] != "123" {
		t.Fatalf("the first wave: %v", by)
	}
	for _, f := range []Failure{{Text: "timeout"}, {Text: "field is immutable", Final: true}} {
		f.Hash = hash
		x.Failed(ref, map[string]Failure{unit: f})
		now = now.Add(time.Minute)
		p, by := plan()
		if by[Update] != "0" || by[Wait] != "123" {
			t.Errorf("%s: %v", f.Text, by)
		}
		valid, progressing := meta.FindStatusCondition(p.Workload.Conditions, apiv1.Valid), meta.FindStatusCondition(p.Workload.Conditions, apiv1.Progressing)
		if (valid.Status == "False") != f.Final || (progressing.Reason == "Stopped") != f.Final || f.Final && !strings.Contains(valid.Message, f.Text) {
			t.Errorf("%s: %+v, %+v", f.Text, valid, progressing)
		}
	}
	changed := clone(grid)
	value[Object](changed, "metadata")["generation"] = int64(2)
	x.Set(changed)
	if p, by := plan(); by[Update] == "" || meta.IsStatusConditionFalse(p.Workload.Conditions, apiv1.Valid) {
		t.Errorf("after a change: %v, %+v", by, p.Workload.Conditions)
	}
}
