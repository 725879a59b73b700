package health

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gridmesh/gridmesh/api/names"
)

func TestUnitOf(t *testing.T) {
	zone := Grouping{Key: names.HealthZone, Workers: true}
	units := Grouping{Units: []string{"a", "b"}}
	all := Grouping{All: true, Workers: true}
	for _, tt := range []struct {
		g            Grouping
		labels, want string
	}{
		{zone, "superedgehealth/topology-zone=x", "x"},
		{zone, "", ""},
		{zone, "superedgehealth/topology-zone=x,node-role.kubernetes.io/master=", ""},
		{zone, "superedgehealth/topology-zone=x,node-role.kubernetes.io/control-plane=", ""},
		{Grouping{Key: "unit"}, "unit=x,node-role.kubernetes.io/master=", "x"},
		{units, "a=nodeunits.superedge.io", "a"},
		{units, "a=nodeunits.superedge.io,b=nodeunits.superedge.io", "a,b"},
		{units, "a=yes,c=nodeunits.superedge.io", ""}, // SuperEdge has it vote on everybody
		{all, "", "all"},
		{all, "node-role.kubernetes.io/master=", ""},
	} {
		of, err := labels.ConvertSelectorToLabelsMap(tt.labels)
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.g.unitOf(of); got != tt.want {
			t.Errorf("%+v, %s: %q", tt.g, tt.labels, got)
		}
	}
}

// Whatever the labels, who votes with whom is the same from everybody's side, and the selector
// of a unit finds all of it.
func TestUnitsArePartitions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	keys := []string{"a", "b", "c", "unit", names.MasterLabel, names.ControlPlaneLabel}
	values := []string{names.NodeUnitMember, "x", "y", ""}
	for _, g := range []Grouping{{Key: "unit"}, {Key: "unit", Workers: true}, {Units: []string{"a", "b", "c"}}, {Units: []string{"a"}}, {All: true, Workers: true}, {}} {
		var nodes []labels.Set
		for range 200 {
			n := labels.Set{}
			for _, key := range keys {
				if r.IntN(3) == 0 {
					n[key] = values[r.IntN(len(values))]
				}
			}
			nodes = append(nodes, n)
		}
		for _, n := range nodes {
			unit := g.unitOf(n)
			if unit == "" {
				continue
			}
			s, err := labels.Parse(g.selector(unit))
			if err != nil {
				t.Fatalf("%+v: %s: %v", g, g.selector(unit), err)
			}
			for _, other := range nodes {
				if g.unitOf(other) == unit && !s.Matches(other) {
					t.Errorf("%+v: %v is in %s, and %s does not find it", g, other, unit, s)
				}
			}
			if len(g.Units) > 0 && !slices.ContainsFunc(g.Units, func(u string) bool { return slices.Contains(strings.Split(unit, ","), u) }) {
				t.Errorf("%+v: %s", g, unit)
			}
		}
	}
}
