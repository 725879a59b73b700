package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/topology"
)

// childKinds are the grids and what they make.
var childKinds = map[string]string{"DeploymentGrid": "Deployment", "StatefulSetGrid": "StatefulSet", "ServiceGrid": "Service"}

// grid is one grid, read.
type grid struct {
	kind, child string
	key         topology.ObjectKey
	uid         string
	labels      map[string]string
	annotations map[string]string
	unitKey     string
	templates   map[string]Object // by name; DefaultTemplate is spec.template
	ofUnit      map[string]string // unit -> name of its template
	fallback    string            // of all other units
	problems    []topology.Problem
}

// read reads a grid. What is wrong becomes a Problem; ok is false where
// nothing can be made of it at all.
func read(obj Object) (g *grid, ok bool) {
	kind, _ := obj["kind"].(string)
	g = &grid{kind: kind, child: childKinds[kind], templates: map[string]Object{}, fallback: apiv1.DefaultTemplate}
	g.key = topology.ObjectKey{Namespace: text(obj, "metadata", "namespace"), Name: text(obj, "metadata", "name")}
	if g.key.Namespace == "" {
		g.key.Namespace = names.DefaultNamespace
	}
	g.uid = text(obj, "metadata", "uid")
	g.labels, g.annotations = texts(obj, "metadata", "labels"), texts(obj, "metadata", "annotations")
	g.unitKey = text(obj, "spec", "gridUniqKey")
	ok = true
	if msgs := validation.IsQualifiedName(g.unitKey); len(msgs) > 0 {
		g.problem("spec.gridUniqKey", "%q is no label key: %s; give the label of nodes whose values are the units", g.unitKey, msgs[0])
		ok = false
	}
	if n, most := len(g.key.Name), g.longest(); n > most {
		g.problem("metadata.name", "has %d characters, at most %d fit; choose a shorter one", n, most)
		ok = false
	}
	template := object(obj, "spec", "template")
	if len(template) == 0 {
		g.problem("spec.template", "is missing; give the spec of the %s that every unit gets", g.child)
		return g, false
	}
	g.templates[apiv1.DefaultTemplate] = template
	for name := range object(obj, "spec", "templatePool") {
		g.templates[name] = object(obj, "spec", "templatePool", name)
	}
	g.ofUnit = texts(obj, "spec", "templates")
	if name := text(obj, "spec", "defaultTemplateName"); name != "" {
		g.fallback = name
	}
	return g, ok
}

func (g *grid) longest() int {
	if g.child == "Service" {
		return validation.DNS1035LabelMaxLength - len("-svc")
	}
	return validation.LabelValueMaxLength
}

func (g *grid) problem(field, format string, args ...any) {
	g.problems = append(g.problems, topology.Problem{Object: strings.ToLower(g.kind) + " " + g.key.String(), Field: field, Text: fmt.Sprintf(format, args...)})
}

// template returns what a unit runs, or why it cannot.
func (g *grid) template(unit string) (Object, string) {
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
	return t, selects(t)
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

// workload renders the child of a unit.
func (g *grid) workload(template Object, unit, name string) Object {
	spec := clone(template)
	pod := ensure(ensure(spec, "template"), "spec")
	ensure(pod, "nodeSelector")[g.unitKey] = unit
	annotations := map[string]string{names.Unit: unit}
	if n := number(spec, -1, "replicas"); n >= 0 {
		annotations[names.Replicas] = strconv.FormatInt(n, 10)
	}
	return g.finish(name, spec, maps.Clone(g.labels), annotations)
}

// service renders the Service of a ServiceGrid, whose traffic stays in the
// unit of its client.
func (g *grid) service(name string) Object {
	annotations := map[string]string{names.TopologyKeys: `["` + g.unitKey + `"]`}
	for k, v := range g.annotations {
		if _, own := annotations[k]; !own && !strings.HasPrefix(k, "kubectl.kubernetes.io/") {
			annotations[k] = v
		}
	}
	return g.finish(name, clone(g.templates[apiv1.DefaultTemplate]), maps.Clone(g.labels), annotations)
}

func (g *grid) finish(name string, spec Object, labels, annotations map[string]string) Object {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[names.GridSelector], labels[names.GridUniqKey] = g.key.Name, keyLabel(g.unitKey)
	annotations[names.UnitKey] = g.unitKey
	version := "apps/v1"
	if g.child == "Service" {
		version = "v1"
	}
	obj := Object{
		"apiVersion": version, "kind": g.child,
		"metadata": Object{
			"namespace": g.key.Namespace, "name": name, "labels": anyMap(labels),
			"ownerReferences": []any{Object{
				"apiVersion": apiv1.Group + "/" + apiv1.Version, "kind": g.kind, "name": g.key.Name, "uid": g.uid,
				"controller": true, "blockOwnerDeletion": true,
			}},
		},
		"spec": spec,
	}
	metadata := obj["metadata"].(Object)
	metadata["annotations"] = anyMap(annotations)
	annotations[names.Applied] = hash(obj)
	metadata["annotations"] = anyMap(annotations)
	return obj
}

// hash is the same for the same content: JSON objects are marshalled sorted.
func hash(obj Object) string {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(err) // it came from JSON
	}
	return short(string(data)) + short(string(data)+"\x00")
}
