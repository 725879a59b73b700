package plan

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A plan foresees that the API server refuses to change what it never changes of
// an object, and nothing that it may change, or fills in itself.
func TestFixedFields(t *testing.T) {
	const live = `{serviceName: db-svc, podManagementPolicy: OrderedReady, selector: {matchLabels: {app: db}}, revisionHistoryLimit: 10, replicas: 1,
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: v1}]}},
  volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, creationTimestamp: null}, spec: {accessModes: [ReadWriteOnce], volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}]}`
	const wanted = `{serviceName: db-svc, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: v2}]}},
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}]}`
	const webhooks = "storageClassName: slow, volumeMode" // nobody's concern where the grid names none
	for name, tc := range map[string]struct{ from, to, want string }{
		"another image":           {"", "", ""},
		"another name of pods":    {"serviceName: db-svc", "serviceName: other", "serviceName"},
		"no name of pods":         {"serviceName: db-svc, ", "", "serviceName"},
		"another order":           {"serviceName", "podManagementPolicy: Parallel, serviceName", "podManagementPolicy"},
		"the order as it is":      {"serviceName", "podManagementPolicy: OrderedReady, serviceName", ""},
		"a larger claim":          {"1024Mi", "2Gi", "volumeClaimTemplates"},
		"a class of storage":      {"accessModes", "storageClassName: fast, accessModes", "volumeClaimTemplates"},
		"no claim":                {"volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}]", "minReadySeconds: 1", "volumeClaimTemplates"},
		"two labels are selected": {"{app: db}", "{app: db, tier: x}", "selector"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(wanted, tc.from) {
				t.Fatal("the template has no", tc.from)
			}
			grid := Object{
				"apiVersion": "superedge.io/v1", "kind": "StatefulSetGrid", "metadata": Object{"name": "db", "uid": "u"},
				"spec": Object{"gridUniqKey": "site", "template": parse(t, strings.ReplaceAll(wanted, tc.from, tc.to))},
			}
			child := Object{
				"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": parse(t, strings.Replace(live, "volumeMode", webhooks, 1)),
				"metadata": Object{
					"name": "db-north", "labels": Object{"superedge.io/grid-selector": "db", "superedge.io/grid-uniq-key": "site"},
					"annotations":     Object{"gridmesh.io/unit": "north", "gridmesh.io/applied": "before"},
					"ownerReferences": []any{Object{"kind": "StatefulSetGrid", "name": "db", "uid": "u", "controller": true}},
				},
			}
			w := World{
				Grids: []Object{grid}, Children: []Object{child}, Nodes: []Object{{"kind": "Node", "metadata": Object{"name": "n", "labels": Object{"site": "north"}}}},
			}
			var got []string
			for _, p := range Review(w) {
				if strings.Contains(p.Text, "does not change") {
					got = append(got, p.String())
				}
			}
			want := []string(nil)
			if tc.want != "" {
				want = []string{"statefulsetgrid default/db: unit north: the StatefulSet is there with another " + tc.want + ", which Kubernetes does not change: the API server refuses the update; write what it has, or delete it, and it is made anew"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			// The controller says it beside the API server's own words, which name no field.
			x := indexOf(w)
			x.Failed(RefOf(grid), map[string]Failure{"north": {Text: "refused", Final: true}})
			p, _ := x.Plan(RefOf(grid), testGuard, time.Now())
			if named := len(p.Problems) == 1 && strings.Contains(p.Problems[0].Text, "another "+tc.want+","); named != (tc.want != "") {
				t.Errorf("after the refusal: %v", p.Problems)
			}
		})
	}
}

// What a webhook made otherwise once is no problem while nothing is to be changed,
// nor is what of a child that goes.
func TestFixedFieldsOfNoUpdate(t *testing.T) {
	grid := Object{
		"apiVersion": "superedge.io/v1", "kind": "StatefulSetGrid", "metadata": Object{"name": "db", "namespace": "default", "uid": "u"},
		"spec": Object{"gridUniqKey": "site", "template": parse(t, `{selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}}}`)},
	}
	w := World{Grids: []Object{grid}, Nodes: []Object{{"kind": "Node", "metadata": Object{"name": "n", "labels": Object{"site": "north"}}}}}
	child := All(w, testGuard, time.Now())[0].Steps[0].Object(time.Now())
	ensure(child, "spec")["podManagementPolicy"] = "Parallel"
	told := func(child Object) int {
		w.Children = []Object{child}
		return len(Review(w))
	}
	if n := told(child); n != 0 {
		t.Errorf("with nothing to change there are %d problems", n)
	}
	ensure(child, "metadata", "annotations")["gridmesh.io/applied"] = "before"
	if n := told(child); n != 1 {
		t.Errorf("with a change there are %d problems", n)
	}
	ensure(child, "metadata")["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	if n := told(child); n != 0 {
		t.Errorf("of a child that goes there are %d problems", n)
	}
}
