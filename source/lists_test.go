package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// What is a List, and not written as one, takes nothing out of service that was in it, and is told
// with file, line and cure.
func TestWhatWasInAListStays(t *testing.T) {
	list := func(kind, items string) string {
		return "# head\nkind: " + kind + "\napiVersion: v1\nitems:\n- " + strings.TrimSpace(items) + "\n"
	}
	deep := func(levels int) string {
		return strings.Repeat("{apiVersion: v1, kind: List, items: [", levels) + strings.TrimSpace(staysWeb) + strings.Repeat("]}", levels) + "\n"
	}
	const seems = "is not known: write List, which seems meant; correct it"
	for name, tc := range map[string]struct{ text, told string }{
		"a small letter":      {list("list", staysWeb), "m.yaml document 1: kind: " + fileStays + "list, in line 2, " + seems},
		"large letters":       {list("LIST", staysWeb), "LIST, in line 2, " + seems},
		"a slip":              {list("Lsit", staysWeb), "Lsit, in line 2, " + seems},
		"nothing in it yet":   {"apiVersion: v1\nkind: list\n", "list, in line 2, " + seems},
		"in a second one":     {staysNode + "---\n" + list("Lists", staysWeb), "m.yaml document 2: kind: " + fileStays + "Lists, in line 4, " + seems},
		"in a List":           {list("List", "kind: Liste\n  apiVersion: v1\n  items: ["+strings.TrimSpace(staysWeb)+"]"), "m.yaml document 1 items[0]: kind: " + fileStays + "Liste, in line 5, " + seems},
		"another kind":        {list("Things", staysWeb), "m.yaml document 1: kind: " + fileStays + "Things, in line 2, is not known, and has objects in its items: write List, which seems meant; correct it"},
		"a List of some kind": {list("Servicelist", staysWeb), "Servicelist, in line 2, is not known, and has objects"},
		"too deep":            {deep(maxLists + 1), "m.yaml document 1 items[0] items[0] items[0] items[0]: items: " + fileStays + "it is a List inside 4 others, and no more are read: write what is in it as documents of their own; correct it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := NewDir(dir)
			write(t, dir, "m.yaml", list("List", staysWeb))
			if got := inForce(t, d); got != "web" {
				t.Fatalf("before: %s", got)
			}
			write(t, dir, "m.yaml", tc.text)
			if got := inForce(t, d); got != "web" {
				t.Errorf("in force are %q", got)
			}
			wantLoss(t, newest(&d.Snapshots), topology.LostNewer, tc.told)
		})
	}
}

// What other software has beside is none of ours, and kinds that are nearly ours are told.
func TestKindsBeside(t *testing.T) {
	for head, want := range map[string]string{
		"apiVersion: rbac.authorization.k8s.io/v1, kind: Role":     "",
		"apiVersion: v1, kind: Pod":                                "",
		"apiVersion: v1, kind: Secret":                             "",
		"apiVersion: batch/v1, kind: Job":                          "",
		"apiVersion: coordination.k8s.io/v1, kind: Lease":          "",
		"apiVersion: example.com/v1, kind: list":                   "",
		"apiVersion: example.com/v1, kind: Basket, items: [1, {}]": "",
		"apiVersion: v1, kind: Sevrcie":                            "write kind: Service",
		"apiVersion: v1, kind: SERVICE":                            "write kind: Service",
		"apiVersion: discovery.k8s.io/v1, kind: EndpontsSlice":     "write kind: EndpointSlice",
		"apiVersion: discovery.k8s.io/v1, kind: EndpointSlices":    "write kind: EndpointSlice",
		"apiVersion: networking.k8s.io/v1, kind: ServiceCdri":      "write kind: ServiceCIDR",
		"apiVersion: v1, kind: node":                               "write kind: Node",
	} {
		s := texts(t, fmt.Sprintf("{%s, metadata: {name: x}}", head))
		if want == "" {
			told(t, s.Problems)
			continue
		}
		wantLoss(t, s, topology.LostAll, want)
	}
}
