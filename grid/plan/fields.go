package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/internal/jsontype"
	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/topology"
)

// Fields finds fields of a grid that do not exist or hold another type, those
// within its templates too: what an API server drops or refuses. Each is named,
// with its cure.
func Fields(obj Object) []topology.Problem {
	ref := RefOf(obj)
	kind := kindOf(ref.Kind)
	if kind == nil {
		return nil
	}
	ours := maps.Clone(obj)
	delete(ours, "status") // is the controller's
	var list []topology.Problem
	more := 0
	for m := range jsontype.Misfits(ours, kind.grid, kind.templates()) {
		if len(list) == mostMisfits { // is counted alone: its text would be made for nobody
			more++
			continue
		}
		text := m.Text()
		if m.Unknown {
			text = kind.unknown(m)
		}
		list = append(list, topology.Problem{Object: ref.String(), Field: m.Path, Text: text})
	}
	if more > 0 {
		list = append(list, topology.Problem{Object: ref.String(), Text: fmt.Sprintf("%d more of its fields do not exist, or hold another type", more)})
	}
	return list
}

// mostMisfits bounds what is told of one grid: with a wrong indent nothing fits.
const mostMisfits = 20

// templates are the types of a grid that hold the spec of a child.
func (k *Kind) templates() map[reflect.Type]reflect.Type {
	return map[reflect.Type]reflect.Type{reflect.TypeFor[apiv1.Template](): k.spec, reflect.TypeFor[runtime.RawExtension](): k.spec}
}

// unknown says what comes of a field that does not exist, and what was meant.
func (k *Kind) unknown(m jsontype.Misfit) string {
	of, comes := m.Type.Name(), "nothing comes of it"
	if inTemplate(m.Path) {
		comes = "the API server refuses the " + k.Child + " with it"
	} else if m.Type.PkgPath() == reflect.TypeFor[apiv1.Rollout]().PkgPath() {
		of = k.Name
	}
	if !k.PerUnit && near.Word(m.Name, []string{names.TopologyKeys}) != "" {
		return fmt.Sprintf("is no field of %s, and %s; remove it: the grid itself writes %s, from its gridUniqKey", of, comes, names.TopologyKeys)
	}
	const few = 12
	cure, known := "correct it, or remove it", slices.Sorted(maps.Keys(jsontype.Fields(m.Type)))
	if meant := near.Word(m.Name, known); meant != "" {
		cure = fmt.Sprintf("write %s, or remove it", meant)
	} else if len(known) <= few {
		cure += ": there are " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("is no field of %s, and %s; %s", of, comes, cure)
}

// inTemplate reports whether a field goes into the children of a grid; its own
// metadata do not, though they are of a type that theirs have, too.
func inTemplate(path string) bool {
	return strings.HasPrefix(path, "spec.template.") || strings.HasPrefix(path, "spec.templatePool[")
}

// misread says what of a workload's template would be taken for absent, and
// left out of the children, though it is there: "" where all is read.
func (k *Kind) misread(spec Object) string {
	replicas, nodeSelector := strings.Join(k.replicas, "."), strings.Join(k.nodeSelector(), ".")
	for m := range jsontype.Misfits(spec, k.spec, nil) {
		above, within := strings.HasPrefix(nodeSelector+".", m.Path+"."), strings.HasPrefix(m.Path, nodeSelector+"[")
		if !m.Unknown && (m.Path == replicas || above || within) {
			return "the template's " + m.Path + " " + m.Text()
		}
	}
	if integer(spec, 0, k.replicas...) < 0 {
		return "the template's " + replicas + " is negative; give 0 or more"
	}
	return ""
}
