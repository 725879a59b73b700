package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/topology"
)

// childKinds are the grids and what they make.
var childKinds = map[string]string{"DeploymentGrid": "Deployment", "StatefulSetGrid": "StatefulSet", "ServiceGrid": "Service"}

// grid is one grid, read, with what it needs to be planned again cheaply.
type grid struct {
	ref         Ref
	child       string // kind of its children
	uid         string
	generation  int64
	going       bool // being deleted
	foreign     bool // of SuperEdge's federation: left alone
	sound       bool // children can be made of it
	labels      map[string]string
	annotations map[string]string
	unitKey     string
	templates   map[string]*template // by name; DefaultTemplate is spec.template
	ofUnit      map[string]string    // unit -> name of its template
	fallback    string               // of all other units
	rollout     *rollout
	autoDelete  bool
	content     Object // what a revision holds
	revision    string // name of the ControllerRevision of content
	problems    []topology.Problem

	// What outlives a change of the grid.
	*memory
}

// memory is what an Index knows of a grid besides its spec.
type memory struct {
	units     map[string][]*child // by unit, sorted by name
	revisions map[string]Object   // by name
	assessed  map[string]assessment
	failures  map[string]Failure // by unit, of the spec as it is
	// The status as it was decided last, or was found: where a rollout is.
	workload *apiv1.WorkloadGridStatus
	service  *apiv1.ServiceGridStatus
}

// template is an entry of the templates, prepared.
type template struct {
	spec     Object // without replicas, and without the unit key in the node selector
	replicas int64  // -1 for none
	sum      string // of everything
	fault    string // why it would be refused, or ""
}

// read reads a grid. What is wrong becomes a Problem.
func read(obj Object) *grid {
	g := &grid{ref: RefOf(obj), templates: map[string]*template{}, fallback: apiv1.DefaultTemplate}
	g.child = childKinds[g.ref.Kind]
	g.uid, g.generation = text(obj, "metadata", "uid"), number(obj, 0, "metadata", "generation")
	g.going = text(obj, "metadata", "deletionTimestamp") != ""
	g.labels, g.annotations = texts(obj, "metadata", "labels"), texts(obj, "metadata", "annotations")
	g.foreign = g.labels[names.Federated] != "" || g.labels[names.Distributed] != ""
	g.unitKey = text(obj, "spec", "gridUniqKey")
	g.sound = true
	if msgs := validation.IsQualifiedName(g.unitKey); len(msgs) > 0 {
		g.unsound("spec.gridUniqKey", "%q is no label key: %s; give the label of nodes whose values are the units", g.unitKey, msgs[0])
	}
	if n, most := len(g.ref.Name), g.longest(); n > most {
		g.unsound("metadata.name", "has %d characters, at most %d fit; choose a shorter one", n, most)
	}
	spec := object(obj, "spec", "template")
	if len(spec) == 0 {
		g.unsound("spec.template", "is missing; give the spec of the %s that every unit gets", g.child)
		return g
	}
	g.templates[apiv1.DefaultTemplate] = g.prepare(spec)
	if g.child == "Service" {
		return g
	}
	g.content = Object{"template": spec}
	for name := range object(obj, "spec", "templatePool") {
		g.templates[name] = g.prepare(object(obj, "spec", "templatePool", name))
	}
	for _, field := range []string{"templatePool", "templates", "defaultTemplateName"} {
		if v, ok := object(obj, "spec")[field]; ok {
			g.content[field] = v
		}
	}
	g.ofUnit = texts(obj, "spec", "templates")
	if name := text(obj, "spec", "defaultTemplateName"); name != "" {
		g.fallback = name
	}
	g.autoDelete = flag(obj, "spec", "autoDeleteUnusedTemplate")
	g.rollout = readRollout(object(obj, "spec", "rollout"))
	g.revision = g.revisionName()
	return g
}

func (g *grid) longest() int {
	if g.child == "Service" {
		return validation.DNS1035LabelMaxLength - len("-svc")
	}
	return validation.LabelValueMaxLength
}

func (g *grid) unsound(field, format string, args ...any) {
	g.sound = false
	g.problems = append(g.problems, topology.Problem{Object: g.ref.String(), Field: field, Text: fmt.Sprintf(format, args...)})
}

// prepare reads one template. Its clone is shared by all units, and compared
// with their children; what differs between units is not in it.
func (g *grid) prepare(spec Object) *template {
	t := &template{spec: clone(spec), replicas: number(spec, -1, "replicas"), sum: sum(spec)}
	if g.child == "Service" {
		return t
	}
	t.fault = selects(spec)
	delete(t.spec, "replicas")
	delete(ensure(ensure(ensure(t.spec, "template"), "spec"), "nodeSelector"), g.unitKey)
	return t
}

// template returns what a unit runs, or why it cannot.
func (g *grid) template(unit string) (*template, string) {
	name, chosen := g.ofUnit[unit]
	if !chosen {
		name = g.fallback
	}
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
	if !g.autoDelete {
		return nil
	}
	used := map[string]bool{apiv1.DefaultTemplate: true, g.fallback: true}
	for _, name := range g.ofUnit {
		used[name] = true
	}
	for name := range g.templates {
		if !used[name] {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// selects says why a workload's template would be refused, or "".
func selects(template Object) string {
	match := texts(template, "selector", "matchLabels")
	if len(match) == 0 && len(object(template, "selector")) == 0 {
		return "the template has no selector: give selector.matchLabels, and the same labels to template.metadata"
	}
	pods := texts(template, "template", "metadata", "labels")
	for _, key := range slices.Sorted(maps.Keys(match)) {
		if pods[key] != match[key] {
			return fmt.Sprintf("selector.matchLabels asks for %s=%s, template.metadata.labels has %q; make them agree", key, match[key], pods[key])
		}
	}
	return ""
}

// same tells whether nothing but the status differs. The API server raises the
// generation with every change of the spec.
func (g *grid) same(o *grid) bool {
	return g.uid == o.uid && g.generation > 0 && g.generation == o.generation && g.going == o.going && maps.Equal(g.labels, o.labels) && maps.Equal(g.annotations, o.annotations)
}

// owns tells whether a child is this grid's own: an earlier grid of the same
// name may have had another UID.
func (g *grid) owns(c *child) bool {
	return c.ownerKind == "" || g.uid == "" || c.ownerUID == g.uid
}

// plain is the name of a unit's child, where nothing is in its way.
func (g *grid) plain(unit string) string {
	if g.child == "Service" {
		return g.ref.Name + "-svc"
	}
	return plainName(g.ref.Name, unit)
}

// sum is the same for the same content: JSON objects are marshalled sorted.
func sum(parts ...any) string {
	data, err := json.Marshal(parts)
	if err != nil {
		panic(err) // it came from JSON
	}
	return digest(string(data), 16)
}

// Short cuts a list of units for a message.
func Short(list []string) string {
	const named = 3
	text := strings.Join(list[:min(named, len(list))], ", ")
	if more := len(list) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
