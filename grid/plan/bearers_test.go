package plan

import (
	"reflect"
	"testing"
	"time"
)

// Who bears which revision follows from what the children say, also of a template that
// several revisions have for a unit; who says nothing, or what nobody has any more, is not
// guessed.
func TestWhoBearsWhichRevision(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	till := func(image string, pool Object) Object {
		template := func(image string) Object {
			return Object{
				"selector": Object{"matchLabels": Object{"app": "till"}},
				"template": Object{"metadata": Object{"labels": Object{"app": "till"}}, "spec": Object{"containers": []any{Object{"name": "c", "image": image}}}},
			}
		}
		spec := Object{"gridUniqKey": "site", "template": template(image)}
		if pool != nil {
			spec["templatePool"], spec["templates"] = Object{"own": template(pool["own"].(string))}, Object{"b": "own"}
		}
		return Object{"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "metadata": Object{"namespace": "default", "name": "till", "uid": "u1"}, "spec": spec}
	}
	var w World
	for _, unit := range []string{"a", "b", "c", "d", "e", "f"} {
		w.Nodes = append(w.Nodes, Object{"apiVersion": "v1", "kind": "Node", "metadata": Object{"name": unit, "labels": Object{"site": unit}}})
	}
	names := map[string]string{}
	apply := func(name string, grid Object, units ...string) {
		t.Helper()
		p := All(World{Nodes: w.Nodes, Grids: []Object{grid}}, DefaultGuard(), now)[0]
		names[name] = p.Workload.Revision
		revision := p.Revision.Object()
		revision["revision"] = int64(len(w.Revisions) + 1)
		w.Revisions = append(w.Revisions, revision)
		for _, s := range p.Steps {
			for _, unit := range units {
				if s.Unit == unit {
					w.Children = append(w.Children, s.Object(now))
				}
			}
		}
		w.Grids = []Object{grid}
	}
	apply("first", till("v1", Object{"own": "b1"}), "b", "c")
	apply("second", till("v2", Object{"own": "b1"})) // reached nobody
	apply("lost", till("v3", Object{"own": "b2"}), "d")
	w.Revisions = w.Revisions[:2]
	apply("current", till("v4", Object{"own": "b2"}), "a", "e", "f")
	for i, mute := range w.Children[len(w.Children)-2:] { // an earlier version's, and another controller's
		delete(value[Object](mute, "metadata", "annotations"), "gridmesh.io/applied-template")
		if i == 1 {
			delete(value[Object](mute, "metadata", "annotations"), "gridmesh.io/applied")
		}
	}
	got := BearersOf(w, RefOf(w.Grids[0]))
	want := Bearers{
		Of:    map[string][]string{names["first"]: {"b", "c"}, names["second"]: {"b"}, names["current"]: {"a", "e"}},
		Known: 4, Unknown: []string{"d", "f"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v of %v", got, want, names)
	}
	if none := BearersOf(w, Ref{"ServiceGrid", "default", "till"}); len(none.Of) > 0 || none.Known > 0 {
		t.Errorf("of a grid that is not there: %+v", none)
	}
}
