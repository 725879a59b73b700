package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/internal/jsontype"
	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/topology"
)

// Fields finds fields of a grid that do not exist or hold another type, those
// within its templates too: what an API server drops or refuses. Decoders stop
// at the first, or name no path; here each is named, with its cure.
func Fields(obj Object) []topology.Problem {
	f := fields{ref: RefOf(obj)}
	if f.kind = kindOf(f.ref.Kind); f.kind == nil {
		return nil
	}
	f.object("", obj, f.kind.grid)
	if f.more > 0 {
		f.problems = append(f.problems, topology.Problem{Object: f.ref.String(), Text: fmt.Sprintf("%d more of its fields do not exist, or hold another type", f.more)})
	}
	return f.problems
}

// mostMisfits bounds what is told of one grid: with a wrong indent nothing fits.
const mostMisfits = 20

// fields walks an object beside the Go type that an API server reads it into.
type fields struct {
	ref      Ref
	kind     *Kind
	problems []topology.Problem
	more     int // that are only counted
	types    map[reflect.Type]fieldSet
}

// fieldSet is the fields of a struct, and their names in order.
type fieldSet struct {
	types map[string]reflect.Type
	names []string
}

// fieldsOf looks at each type once.
func (f *fields) fieldsOf(t reflect.Type) fieldSet {
	set, seen := f.types[t]
	if !seen {
		set.types = jsontype.Fields(t)
		set.names = slices.Sorted(maps.Keys(set.types))
		if f.types == nil {
			f.types = map[reflect.Type]fieldSet{}
		}
		f.types[t] = set
	}
	return set
}

// full counts one that will not be named: its text would be made for nobody.
func (f *fields) full() bool {
	if len(f.problems) < mostMisfits {
		return false
	}
	f.more++
	return true
}

func (f *fields) problem(path, format string, args ...any) {
	if f.full() {
		return
	}
	f.problems = append(f.problems, topology.Problem{Object: f.ref.String(), Field: path, Text: fmt.Sprintf(format, args...)})
}

// check looks at one value; nothing, which is null, fits everywhere.
func (f *fields) check(path string, v any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case v == nil:
	case t == reflect.TypeFor[apiv1.Template]() || t == reflect.TypeFor[runtime.RawExtension]():
		f.check(path, v, f.kind.spec)
	case jsontype.ReadsItself(t):
		f.special(path, v, t)
	case t.Kind() == reflect.Struct:
		if fields, ok := v.(Object); ok {
			f.object(path, fields, t)
			return
		}
		f.misfit(path, v, "an object")
	case t.Kind() == reflect.Map:
		f.entries(path, v, t)
	case t.Kind() == reflect.Slice:
		f.items(path, v, t)
	default:
		f.scalar(path, v, t)
	}
}

func (f *fields) object(path string, obj Object, t reflect.Type) {
	known := f.fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		switch field, ok := known.types[name]; {
		case !ok:
			f.unknown(at, name, t, known.names)
		case at != "status": // is the controller's
			f.check(at, obj[name], field)
		}
	}
}

// unknown names a field that a type does not have, and what was meant.
func (f *fields) unknown(path, name string, t reflect.Type, known []string) {
	if f.full() {
		return
	}
	of, comes := t.Name(), "nothing comes of it"
	if inTemplate(path) {
		comes = "the API server refuses the " + f.kind.Child + " with it"
	} else if t.PkgPath() == reflect.TypeFor[apiv1.Rollout]().PkgPath() {
		of = f.ref.Kind
	}
	if !f.kind.PerUnit && near.Word(name, []string{names.TopologyKeys}) != "" {
		f.problem(path, "is no field of %s, and %s; remove it: the grid itself writes %s, from its gridUniqKey", of, comes, names.TopologyKeys)
		return
	}
	const few = 12
	cure := "correct it, or remove it"
	if meant := near.Word(name, known); meant != "" {
		cure = fmt.Sprintf("write %s, or remove it", meant)
	} else if len(known) <= few {
		cure += ": there are " + strings.Join(known, ", ")
	}
	f.problem(path, "is no field of %s, and %s; %s", of, comes, cure)
}

// inTemplate reports whether a field goes into the children of a grid; its own
// metadata do not, though they are of a type that theirs have, too.
func inTemplate(path string) bool {
	return strings.HasPrefix(path, "spec.template.") || strings.HasPrefix(path, "spec.templatePool[")
}

func (f *fields) entries(path string, v any, t reflect.Type) {
	obj, ok := v.(Object)
	if !ok {
		f.misfit(path, v, "an object")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(obj)) {
		f.check(fmt.Sprintf("%s[%s]", path, key), obj[key], t.Elem())
	}
}

func (f *fields) items(path string, v any, t reflect.Type) {
	list, ok := v.([]any)
	if !ok {
		f.misfit(path, v, "a list")
		return
	}
	for i, item := range list {
		f.check(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
	}
}

// special is of a type that reads itself.
func (f *fields) special(path string, v any, t reflect.Type) {
	if jsontype.Read(t, v) == nil {
		return
	}
	wanted := map[reflect.Type]string{
		reflect.TypeFor[resource.Quantity]():  "a quantity, such as 100m or 2Gi,",
		reflect.TypeFor[intstr.IntOrString](): "an integer or a string",
		reflect.TypeFor[metav1.Time]():        "a time, such as 2026-01-31T12:00:00Z,",
	}[t]
	if wanted == "" {
		wanted = "a " + t.Name()
	}
	f.misfit(path, v, wanted)
}

func (f *fields) scalar(path string, v any, t reflect.Type) {
	number, isNumber := jsontype.Whole(v)
	switch text, isText := v.(string); {
	case t.Kind() == reflect.String:
		switch v.(type) {
		case int64, float64, bool:
			f.misfit(path, v, fmt.Sprintf(`a string is wanted: write "%v", in quotes`, v))
		case string:
		default:
			f.misfit(path, v, "a string")
		}
	case t.Kind() == reflect.Bool:
		if _, ok := v.(bool); !ok {
			f.misfit(path, v, "true or false")
		}
	case t.Kind() < reflect.Int || t.Kind() > reflect.Int64: // a fraction, or what no such object has
	case isNumber && reflect.Zero(t).OverflowInt(number):
		f.problem(path, "is %d, and no more than %d bits are kept of it; give a smaller number", number, t.Bits())
	case isNumber:
	case isText && isInteger(text):
		f.misfit(path, v, fmt.Sprintf("an integer is wanted: write %s, without quotes", text))
	default:
		f.misfit(path, v, "an integer")
	}
}

// misfit tells of a value of another type; wanted is a type, or a sentence.
func (f *fields) misfit(path string, v any, wanted string) {
	if f.full() {
		return
	}
	if !strings.Contains(wanted, " wanted") {
		wanted += " is wanted"
	}
	f.problem(path, "is %s; %s", kindOfValue(v), wanted)
}

func kindOfValue(v any) string {
	const most = 40
	switch v := v.(type) {
	case string:
		if len(v) > most {
			return fmt.Sprintf("a string, %q...", v[:most])
		}
		return fmt.Sprintf("a string, %q", v)
	case bool:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	case Object:
		return "an object"
	}
	return fmt.Sprintf("%v, a number", v)
}

func isInteger(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}
