package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/topology"
)

// grid is one grid, decoded, with what it needs to be planned again cheaply.
// Nothing is written to it once it is made.
type grid struct {
	ref         Ref
	kind        *Kind
	uid         string
	generation  int64
	deleting    bool
	federated   bool // of SuperEdge's federation: left alone
	valid       bool // children can be made of it
	labels      map[string]string
	annotations map[string]string
	spec        apiv1.WorkloadGridSpec // without the templates; of a ServiceGrid the unit key alone
	unitKey     string
	templates   map[string]*template // by name; DefaultTemplate is spec.template
	bears       map[string]string    // the labels of its children
	waves       *waves               // nil for a change that goes to all units at once
	content     packed               // what a revision holds
	revision    string               // name of the ControllerRevision of content
	problems    []topology.Problem
}

// template is an entry of the templates, prepared.
type template struct {
	alike        packed            // the spec, as Kind.alike has it
	nodeSelector Object            // without the unit key
	replicas     int64             // -1 for none
	labels       map[string]string // of the children
	sum          string            // of everything
	fault        string            // why it would be refused, or ""
	// What a child was compared with it last: most units' are alike.
	last       atomic.Pointer[comparison]
	lastLabels atomic.Pointer[labelling]
}

// comparison is in what some children, which have this alike, differ from a template.
type comparison struct {
	alike packed
	spec  []difference
	fixed []string // fields that differ and that no update changes
}

// labelling is that of labels.
type labelling struct {
	labels  []packed
	differs []difference
}

// Federated reports whether a grid is of SuperEdge's federation by its labels: it is left alone.
func Federated(obj Object) bool {
	labels := value[Object](obj, "metadata", "labels")
	return value[string](labels, names.Federated) != "" || value[string](labels, names.Distributed) != ""
}

// decodeGrid reads a grid. What is wrong becomes a Problem.
func decodeGrid(obj Object) *grid {
	g := &grid{ref: RefOf(obj), templates: map[string]*template{}, deleting: deleting(obj)}
	g.kind = kindOf(g.ref.Kind)
	g.valid = badName(g.ref.Name) == "" // an API server has no other, and who reads manifests says so
	g.uid, g.generation = value[string](obj, "metadata", "uid"), integer(obj, 0, "metadata", "generation")
	g.labels = stringsOf(value[Object](obj, "metadata", "labels"))
	g.annotations = stringsOf(value[Object](obj, "metadata", "annotations"))
	g.federated = Federated(obj)
	g.bears = maps.Clone(g.labels)
	spec := value[Object](obj, "spec")
	if held := packedOf(obj); held != nil {
		spec = held[0].open()
	}
	g.spec = decodeSpec(spec, g.kind.PerUnit)
	g.unitKey = string(g.spec.GridUniqKey)
	g.bears[names.GridSelector], g.bears[names.GridUniqKey] = g.ref.Name, keyLabel(g.unitKey)
	if msgs := validation.IsQualifiedName(g.unitKey); len(msgs) > 0 {
		g.invalid("spec.gridUniqKey", "%q is no label key: %s; give the label of nodes whose values are the units", g.unitKey, msgs[0])
	}
	if n := len(g.ref.Name); n > g.kind.maxName {
		g.invalid("metadata.name", "has %d characters, at most %d fit; choose a shorter one", n, g.kind.maxName)
	}
	main := value[Object](spec, "template")
	if len(main) == 0 {
		g.invalid("spec.template", "is missing; give the spec of the %s that every unit gets", g.kind.Child)
	} else {
		g.templates[apiv1.DefaultTemplate] = g.prepare(main)
	}
	if g.kind.PerUnit {
		g.decodeTemplates(spec, main)
	}
	return g
}

// decodeTemplates reads what a grid with a child in every unit has besides.
func (g *grid) decodeTemplates(spec, main Object) {
	pool := value[Object](spec, "templatePool")
	for name := range pool {
		if name == apiv1.DefaultTemplate {
			g.problems = append(g.problems, g.problem("spec.templatePool.default", "is not used, for spec.template has the name default; change spec.template, or give the entry another name"))
			continue
		}
		g.templates[name] = g.prepare(value[Object](pool, name))
	}
	g.waves = newWaves(g.spec.Rollout)
	for _, w := range wrongWaves(g.spec.Rollout) {
		g.problems = append(g.problems, g.problem("spec.rollout."+w.field, "%s", w.text))
	}
	if len(main) == 0 {
		return // of which there is no revision
	}
	content := Object{"template": main}
	for _, field := range []string{"templatePool", "templates", "defaultTemplateName"} {
		if v, ok := spec[field]; ok {
			content[field] = v
		}
	}
	g.content, g.revision = pack(content), fmt.Sprintf("%s.%s.%s", g.kind.revision, g.ref.Name, sum(content))
}

// decodeSpec reads a spec but for its templates, which stay as they were
// written.
func decodeSpec(from Object, perUnit bool) (spec apiv1.WorkloadGridSpec) {
	if !perUnit {
		spec.GridUniqKey = decode[apiv1.ServiceGridSpec](Object{"gridUniqKey": from["gridUniqKey"]}).GridUniqKey
		return spec
	}
	fields := maps.Clone(from)
	for _, raw := range []string{"template", "templatePool", "rollout"} {
		delete(fields, raw)
	}
	if units := value[Object](from, "templates"); units != nil {
		fields["templates"] = anyMap(stringsOf(units))
	}
	spec = decode[apiv1.WorkloadGridSpec](fields)
	if rollout := value[Object](from, "rollout"); rollout != nil {
		r := decode[apiv1.Rollout](tame(rollout))
		spec.Rollout = &r
	}
	return spec
}

// decode reads what of an object a type can hold. A field of another type
// reads as absent, and costs no other: the API server's validation says so
// better.
func decode[T any](from Object) (out T) {
	fits := make(Object, len(from))
	for key, v := range from {
		var one T
		if runtime.DefaultUnstructuredConverter.FromUnstructured(Object{key: v}, &one) == nil {
			fits[key] = v
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fits, &out); err != nil {
		panic(err) // every field of it was read before
	}
	return out
}

// tame brings the numbers of a rollout into the range of their type, and drops
// from its lists what is no text.
func tame(rollout Object) Object {
	out := maps.Clone(rollout)
	for key, v := range rollout {
		switch v := v.(type) {
		case int64, float64:
			out[key] = min(max(integer(rollout, 0, key), math.MinInt32), math.MaxInt32)
		case []any:
			out[key] = slices.DeleteFunc(slices.Clone(v), func(item any) bool { _, ok := item.(string); return !ok })
		}
	}
	return out
}

// decodeStatus reads the status that a grid was found with; one of a form that
// is not ours reads as none.
func decodeStatus(obj Object) (workload *apiv1.WorkloadGridStatus, service *apiv1.ServiceGridStatus) {
	status := value[Object](obj, "status")
	if status == nil {
		return nil, nil
	}
	data, err := json.Marshal(status)
	if err != nil {
		return nil, nil
	}
	workload, service = &apiv1.WorkloadGridStatus{}, &apiv1.ServiceGridStatus{}
	if json.Unmarshal(data, workload) != nil {
		workload = nil
	}
	if json.Unmarshal(data, service) != nil {
		service = nil
	}
	return workload, service
}

func (g *grid) problem(field, format string, args ...any) topology.Problem {
	return topology.Problem{Object: g.ref.String(), Field: field, Text: fmt.Sprintf(format, args...)}
}

func (g *grid) invalid(field, format string, args ...any) {
	g.valid = false
	g.problems = append(g.problems, g.problem(field, format, args...))
}

// prepare reads one template, which is shared by all units; what differs between
// them is not in it.
func (g *grid) prepare(spec Object) *template {
	t := &template{alike: pack(g.kind.alike(spec)), replicas: integer(spec, -1, g.kind.replicas...), labels: g.bears, sum: sum(spec)}
	if !g.kind.PerUnit {
		return t
	}
	t.fault = strings.Join(slices.DeleteFunc([]string{g.kind.mismatch(spec), g.kind.misread(spec)}, func(fault string) bool { return fault == "" }), "; ")
	t.nodeSelector = maps.Clone(value[Object](spec, g.kind.nodeSelector()...))
	delete(t.nodeSelector, g.unitKey)
	return t
}

// mismatch says why a workload's template would be refused, or "".
func (k *Kind) mismatch(spec Object) string {
	selector := value[Object](spec, k.selector...)
	match := stringsOf(value[Object](selector, "matchLabels"))
	if len(match) == 0 && len(selector) == 0 {
		return "the template has no selector: give selector.matchLabels, and the same labels to template.metadata"
	}
	pods := stringsOf(value[Object](value[Object](spec, k.pods...), "metadata", "labels"))
	for _, key := range slices.Sorted(maps.Keys(match)) {
		if pods[key] != match[key] {
			return fmt.Sprintf("selector.matchLabels asks for %s=%s, template.metadata.labels has %q; make them agree", key, match[key], pods[key])
		}
	}
	return ""
}

// fallback is the name of the template of the units that name none.
func (g *grid) fallback() string {
	if name := g.spec.DefaultTemplateName; name != "" {
		return string(name)
	}
	return apiv1.DefaultTemplate
}

// names is the name of the template that a unit runs.
func (g *grid) names(unit string) string {
	if own, ok := g.spec.Templates[unit]; ok {
		return string(own)
	}
	return g.fallback()
}

// template returns what a unit runs, or why it cannot.
func (g *grid) template(unit string) (*template, string) {
	name := g.names(unit)
	_, chosen := g.spec.Templates[unit]
	t, ok := g.templates[name]
	switch {
	case !ok && chosen:
		return nil, fmt.Sprintf("spec.templates names template %q for this unit, which spec.templatePool does not hold", name)
	case !ok:
		return nil, fmt.Sprintf("spec.defaultTemplateName is %q, which spec.templatePool does not hold", name)
	}
	return t, t.fault
}

// unused are the entries of templatePool that neither a unit nor the default
// names.
func (g *grid) unused() (list []string) {
	if !g.spec.AutoDeleteUnusedTemplate {
		return nil
	}
	used := map[string]bool{apiv1.DefaultTemplate: true, g.fallback(): true}
	for _, name := range g.spec.Templates {
		used[string(name)] = true
	}
	for name := range g.templates {
		if !used[name] {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// is reports whether an object is this grid, but for the status. The API server
// raises the generation with every change of the spec.
func (g *grid) is(obj Object) bool {
	return g.generation > 0 && g.generation == integer(obj, 0, "metadata", "generation") && g.uid == value[string](obj, "metadata", "uid") && g.deleting == deleting(obj) &&
		maps.Equal(g.labels, stringsOf(value[Object](obj, "metadata", "labels"))) && maps.Equal(g.annotations, stringsOf(value[Object](obj, "metadata", "annotations")))
}

func (g *grid) ownerReference() Object {
	return Object{
		"apiVersion": gridAPI.String(), "kind": g.ref.Kind, "name": g.ref.Name, "uid": g.uid,
		"controller": true, "blockOwnerDeletion": true,
	}
}
