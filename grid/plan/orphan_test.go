package plan

import (
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// checkOrphans holds the index against a look at every object: what a grid of
// another UID, or none, has left, as Kubernetes' garbage collector judges it.
func checkOrphans(t *testing.T, seed uint64, c *cluster, count map[string]int) {
	t.Helper()
	want := map[Ref]string{}
	for _, ref := range c.refs("Deployment", "StatefulSet", "Service", "ControllerRevision") {
		owner := controllerOf(c.objects[ref])
		name := value[string](owner, "name")
		grid := c.objects[Ref{value[string](owner, "kind"), ref.Namespace, name}]
		if owner != nil && value[any](grid, "metadata", "uid") != owner["uid"] && value[string](c.objects[ref], "metadata", "labels", "superedge.io/grid-selector") == name {
			want[ref] = value[string](owner, "uid")
		}
	}
	got := map[Ref]string{}
	for _, o := range c.x.Orphans() {
		got[o.Ref] = o.UID
	}
	if !maps.Equal(got, want) {
		t.Fatalf("seed %d: the index has these orphans (-), and there are (+):\n%s", seed, gocmp.Diff(got, want))
	}
	count["orphan"] += len(want)
}

// What is somebody's, or is going, is no orphan.
func TestNoOrphans(t *testing.T) {
	owner := func(change Object) Object {
		o := Object{"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "name": "till", "uid": "old", "controller": true}
		maps.Copy(o, change)
		return o
	}
	for name, tc := range map[string]struct {
		metadata Object
		orphans  int
	}{
		"of a grid that is no more":    {Object{"ownerReferences": []any{owner(nil)}}, 1},
		"of the grid that is there":    {Object{"ownerReferences": []any{owner(Object{"uid": "new"})}}, 0},
		"left by --cascade=orphan":     {Object{}, 0},
		"of two owners":                {Object{"ownerReferences": []any{owner(nil), Object{"kind": "ConfigMap", "name": "x", "uid": "y"}}}, 0},
		"of an owner, no controller":   {Object{"ownerReferences": []any{owner(Object{"controller": false})}}, 0},
		"of another API's kind":        {Object{"ownerReferences": []any{owner(Object{"apiVersion": "example.com/v1"})}}, 0},
		"of a kind that makes others":  {Object{"ownerReferences": []any{owner(Object{"kind": "ServiceGrid"})}}, 0},
		"labelled for another grid":    {Object{"ownerReferences": []any{owner(nil)}, "labels": Object{"superedge.io/grid-selector": "shop"}}, 0},
		"being deleted":                {Object{"ownerReferences": []any{owner(nil)}, "deletionTimestamp": "2026-01-01T00:00:00Z"}, 0},
		"of a name that never was one": {Object{"ownerReferences": []any{owner(Object{"name": "shop"})}, "labels": Object{"superedge.io/grid-selector": "shop"}}, 1},
	} {
		metadata := Object{"namespace": "default", "name": "till-a", "resourceVersion": "7", "labels": Object{"superedge.io/grid-selector": "till"}}
		maps.Copy(metadata, tc.metadata)
		x := NewIndex()
		grid := func(uid string) Object {
			return Object{"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "metadata": Object{"namespace": "default", "name": "till", "uid": uid}, "spec": Object{"gridUniqKey": "site"}}
		}
		x.Set(grid("old"))
		x.Set(Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
		x.Set(grid("new"))
		list := x.Orphans()
		if len(list) != tc.orphans || slices.ContainsFunc(list, func(o Orphan) bool { return o.Version != "7" || o.UID != "old" }) {
			t.Errorf("%s: %+v, want %d", name, list, tc.orphans)
		}
	}
}
