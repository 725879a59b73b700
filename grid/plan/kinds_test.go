package plan

import (
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// The table of kinds agrees with the CRDs: names, and how long a grid's may be.
func TestKindsAreTheCRDs(t *testing.T) {
	crds, err := apiv1.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	if len(crds) != len(Kinds()) {
		t.Errorf("%d CRDs, %d kinds", len(crds), len(Kinds()))
	}
	for _, data := range crds {
		var crd struct {
			Spec struct {
				Group string `json:"group"`
				Names struct {
					Kind, Plural, Singular string
					ShortNames             []string
				} `json:"names"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		names := crd.Spec.Names
		for _, word := range append(slices.Clone(names.ShortNames), names.Kind, names.Plural, names.Singular) {
			if k, ok := FindKind(word); !ok || k.Name != names.Kind || k.Resource != names.Plural {
				t.Errorf("%s is %q %q, the CRD says %s", word, k.Name, k.Resource, names.Kind)
			}
		}
	}
	if k, ok := FindKind("daemonsetgrid"); ok {
		t.Errorf("daemonsetgrid is %s", k.Name)
	}
}

// What a mirror is to hold: everything that a plan is made of, and of what
// others make only what bears the label.
func TestWatches(t *testing.T) {
	want := map[string]string{
		"v1/nodes": "", "superedge.io/v1/deploymentgrids": "", "superedge.io/v1/statefulsetgrids": "", "superedge.io/v1/servicegrids": "",
		"apps/v1/deployments": "superedge.io/grid-selector", "apps/v1/statefulsets": "superedge.io/grid-selector",
		"v1/services": "superedge.io/grid-selector", "apps/v1/controllerrevisions": "superedge.io/grid-selector",
	}
	var w World
	for _, o := range Watches() {
		at := o.APIVersion() + "/" + o.Resource.Resource
		if selector, ok := want[at]; !ok || selector != o.Selector {
			t.Errorf("%s with selector %q", at, o.Selector)
		}
		delete(want, at)
		w.Add(Object{"apiVersion": o.APIVersion(), "kind": o.Kind})
		w.Add(Object{"apiVersion": "example.com/v1", "kind": o.Kind}) // somebody else's
	}
	if len(want) > 0 {
		t.Errorf("not watched: %v", want)
	}
	if len(w.Nodes) != 1 || len(w.Grids) != 3 || len(w.Children) != 3 || len(w.Revisions) != 1 {
		t.Errorf("sorted into %d Nodes, %d grids, %d children, %d revisions", len(w.Nodes), len(w.Grids), len(w.Children), len(w.Revisions))
	}
}
