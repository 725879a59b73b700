package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/topology"
)

// Review finds what is likely to be a mistake in grids before they are applied:
// what a plan passes over because it may yet become right, as a unit that no
// node has, and what else only the API server would say.
func Review(w World) []topology.Problem {
	x := indexOf(w)
	var list []topology.Problem
	for _, obj := range w.Grids {
		list = append(list, Fields(obj)...)
	}
	for _, ref := range x.Grids() {
		g := x.grids[ref]
		switch {
		case g.deleting:
		case g.kind.PerUnit && !g.valid:
			list = slices.Concat(list, x.misnamed(g), x.unread(g))
		case g.kind.PerUnit:
			list = slices.Concat(list, x.misnamed(g), x.missingUnits(g), x.nameless(g), x.immutable(g), x.unread(g))
		case !g.valid:
			list = append(list, g.badPorts()...)
		default:
			list = slices.Concat(list, x.missingUnits(g), g.badPorts())
		}
	}
	return list
}

// Evictable are grids whose pods Kubernetes deletes in a long outage of their
// unit's uplink: a template leaves it to Kubernetes how long they stay on a node
// that is not heard of.
func Evictable(w World) (list []Ref) {
	for _, obj := range w.Grids {
		g := decodeGrid(obj)
		if g.valid && !g.deleting && g.kind.PerUnit && slices.ContainsFunc(slices.Collect(maps.Values(g.templates)), g.evictable) {
			list = append(list, g.ref)
		}
	}
	return list
}

func (g *grid) evictable(t *template) bool {
	tolerations := value[[]any](value[Object](t.alike.open(), g.kind.pods...), "spec", "tolerations")
	tolerated := func(taint string) bool {
		return slices.ContainsFunc(tolerations, func(item any) bool {
			t, _ := item.(Object)
			word := func(field string) string { return value[string](t, field) }
			return (word("key") == "" || word("key") == taint) && (word("effect") == "" || word("effect") == string(corev1.TaintEffectNoExecute)) &&
				(word("operator") == string(corev1.TolerationOpExists) || word("value") == "")
		})
	}
	return !tolerated(corev1.TaintNodeUnreachable) || !tolerated(corev1.TaintNodeNotReady)
}

// misnamed says that no unit's child can have a name, whatever the unit is called.
// Where there are units, their steps say so.
func (x *Index) misnamed(g *tracked) []topology.Problem {
	if g.kind.badGrid == nil || len(x.units.of(g.unitKey)) > 0 {
		return nil
	}
	if why := g.kind.badGrid(g.ref.Name); why != "" {
		return []topology.Problem{g.problem("metadata.name", "%s", why)}
	}
	return nil
}

// unread are mistakes that no step tells, for no unit runs what has them: a grid with a key
// that is no node's has them all at once, and not one after the other.
func (x *Index) unread(g *tracked) (list []topology.Problem) {
	run := map[string]bool{}
	units := x.units.of(g.unitKey)
	for unit := range units {
		run[g.names(unit)] = g.valid
	}
	absent := func(name string) bool { return !run[name] && g.templates[name] == nil }
	if name := g.fallback(); absent(name) && name != apiv1.DefaultTemplate {
		list = append(list, g.problem("spec.defaultTemplateName", "is %q, which spec.templatePool does not hold; add it there, or name one of those", name))
	}
	for _, unit := range slices.Sorted(maps.Keys(g.spec.Templates)) {
		if name := string(g.spec.Templates[unit]); absent(name) && name != apiv1.DefaultTemplate {
			list = append(list, g.problem("spec.templates["+unit+"]", "names template %q, which spec.templatePool does not hold; add it there, or name one of those", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.templates)) {
		if fault := g.templates[name].fault; fault != "" && !run[name] {
			list = append(list, g.problem(fieldOf(name), "%s", fault))
		}
	}
	return list
}

// fieldOf is where a grid has a template.
func fieldOf(template string) string {
	if template == apiv1.DefaultTemplate {
		return "spec.template"
	}
	return "spec.templatePool." + template
}

// Idle says of each grid that makes nothing for want of Nodes that it does not.
func Idle(w World) (list []topology.Problem) {
	x := indexOf(w)
	for _, ref := range x.Grids() {
		if g := x.grids[ref]; g.valid && !g.deleting {
			list = append(list, x.noNodes(g)...)
		}
	}
	return list
}

// noNodes says of a grid without Nodes that it makes nothing. One with one child for
// all units has that without, too, and one that has made something keeps that (lacks).
func (x *Index) noNodes(g *tracked) []topology.Problem {
	if len(x.units.nodes) > 0 || !g.kind.PerUnit || len(x.keysOfChildren(g)) > 0 {
		return nil
	}
	return []topology.Problem{g.problem("", "makes nothing, for there are no Nodes here; add those of the cluster (kubectl get nodes -o yaml), or ask it (--kubeconfig)")}
}

// missingUnits are units of a grid that no node is in, or that it has none.
func (x *Index) missingUnits(g *tracked) []topology.Problem {
	list := append(x.noNodes(g), g.absences(x.lacks(g))...)
	if len(x.units.of(g.unitKey)) == 0 {
		return list
	}
	if absent := x.absentUnits(g, maps.Keys(g.spec.Templates)); len(absent) > 0 {
		list = append(list, g.problem("spec.templates", "%s", g.unitsOfNobody(absent)))
	}
	return list
}

// immutable are the units of which the API server refuses the change of a child.
func (x *Index) immutable(g *tracked) []topology.Problem {
	byWhy, known := map[string][]string{}, map[pairing]string{}
	for unit := range x.units.of(g.unitKey) {
		why := g.frozen(unit, known)
		if why == "" {
			continue
		}
		live := g.live(unit)
		if t, _ := g.template(unit); live.annotations[names.Applied] != g.desired(t, unit, live.ref.Name, live).hash { // else nothing is to be changed
			byWhy[why] = append(byWhy[why], unit)
		}
	}
	return g.problemsOf(byWhy)
}

// nameless are templates whose pods have no names that resolve, though one is
// asked for: no Service has the name, or one of other units or pods. SuperEdge answers
// for a Service of the grid's own unit key alone; one that no grid makes is
// somebody else's to judge, for Kubernetes names pods by it.
func (x *Index) nameless(g *tracked) (list []topology.Problem) {
	for _, name := range slices.Sorted(maps.Keys(g.templates)) {
		spec := g.templates[name].alike.open()
		service := value[string](spec, g.kind.names...)
		if len(g.kind.names) == 0 || service == "" {
			continue
		}
		labels := stringsOf(value[Object](spec, g.kind.podLabels()...))
		if why := x.unnamed(g, service, labels); why != "" {
			list = append(list, g.problem(fieldOf(name)+"."+strings.Join(g.kind.names, "."), "%s", why))
		}
	}
	return list
}

// unnamed says why a Service gives the pods of a grid, with those labels, no
// names, or "".
func (x *Index) unnamed(g *tracked, service string, labels map[string]string) string {
	services, nowhere := kindOfChild("Service"), "the pods run, and their names resolve nowhere"
	gridOf := func(name string) *tracked { return x.grids[Ref{services.Name, g.ref.Namespace, name}] }
	base, made := strings.CutSuffix(service, serviceSuffix)
	if s := gridOf(base); made && s != nil {
		switch {
		case !s.valid:
			return ""
		case s.unitKey == g.unitKey:
			return passedOver(service, stringsOf(value[Object](s.templates[s.fallback()].alike.open(), "selector")), labels)
		}
		return fmt.Sprintf("names %s, whose units are the values of %s and not of %s: %s; give both grids one gridUniqKey", service, s.unitKey, g.unitKey, nowhere)
	}
	if c := x.children[Ref{services.Child, g.ref.Namespace, service}]; c != nil {
		if selector := stringsOf(value[Object](c.whole(), "selector")); len(selector) > 0 { // without, its endpoints are somebody's own
			return passedOver(service, selector, labels)
		}
		return ""
	}
	if gridOf(service) != nil {
		return fmt.Sprintf("names the grid %s and not its Service: %s; write %s", service, nowhere, services.name(service, ""))
	}
	var others []string // Services that would do
	for ref, s := range x.grids {
		if s.kind == services && ref.Namespace == g.ref.Namespace && s.unitKey == g.unitKey {
			others = append(others, services.name(ref.Name, ""))
		}
	}
	slices.Sort(others)
	cure := "write the Service of a ServiceGrid, which has the grid's name and " + serviceSuffix
	switch {
	case len(others) > 0:
		cure = "write " + Short(others)
	case made:
		cure = fmt.Sprintf("add the ServiceGrid %s, or ask the cluster (--kubeconfig)", base)
	}
	return fmt.Sprintf("names %s, and there is no such Service here: %s; %s", service, nowhere, cure)
}

// passedOver says why a Service does not select pods with those labels, or "".
func passedOver(service string, selector, labels map[string]string) string {
	var terms []string
	selects := true
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		terms = append(terms, key+"="+selector[key])
		selects = selects && labels[key] == selector[key]
	}
	switch {
	case len(terms) == 0:
		return fmt.Sprintf("names %s, which selects no pods: they run, and their names resolve nowhere; give it a selector that their labels have", service)
	case !selects:
		return fmt.Sprintf("names %s, which selects %s, and the pods have no such labels: they run, and their names resolve nowhere; give the pods those labels, or let the Service select theirs", service, strings.Join(terms, ", "))
	}
	return ""
}
