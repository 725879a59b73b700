package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// strayFields are those of a grid that do not exist. An API server drops them,
// and a rollout that is misspelt is none: every unit changes at once.
func strayFields(obj map[string]any) []topology.Problem {
	ref := plan.RefOf(obj)
	var list []topology.Problem
	check := func(path string, value, of any) map[string]any {
		fields, _ := value.(map[string]any)
		known := fieldsOf(reflect.TypeOf(of))
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if !slices.Contains(known, name) {
				list = append(list, topology.Problem{
					Object: ref.String(), Field: path + "." + name,
					Text: fmt.Sprintf("is no field of a %s, and nothing comes of it; correct it, or remove it: there are %s", ref.Kind, strings.Join(known, ", ")),
				})
			}
		}
		return fields
	}
	if kind, _ := plan.FindKind(ref.Kind); !kind.PerUnit {
		check("spec", obj["spec"], apiv1.ServiceGridSpec{})
		return list
	}
	spec := check("spec", obj["spec"], apiv1.WorkloadGridSpec{})
	check("spec.rollout", spec["rollout"], apiv1.Rollout{})
	return list
}

// fieldsOf are the names that a struct has in JSON, sorted.
func fieldsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
