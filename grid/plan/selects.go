package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/topology"
)

// Unanswered says of the Services of grids that are asked for that they answer nobody, as far as
// the pods of grids go: none has the labels of its selector, or a port of the name that targetPort
// says. Other pods may be meant, so it is no problem.
func Unanswered(w World, asked func(grid string) bool) (list []topology.Problem) {
	x := indexOf(w)
	var services []*tracked
	in := map[string]bool{} // their namespaces
	for _, ref := range x.Grids() {
		if g := x.grids[ref]; !g.kind.PerUnit && g.valid && !g.deleting && asked(ref.String()) {
			services, in[ref.Namespace] = append(services, g), true
		}
	}
	pods := x.podTemplates(in)
	for _, g := range services {
		list = append(list, x.unanswered(g, pods[g.ref.Namespace])...)
	}
	return list
}

// podTemplate is what a template of a grid says of its pods.
type podTemplate struct {
	of     Ref // a grid, or a workload that is no grid's
	labels map[string]string
	pod    Object // its spec
}

// podTemplates are those of the grids in some namespaces, and of the workloads beside them that are
// known, by namespace: each is decoded for it.
func (x *Index) podTemplates(in map[string]bool) map[string][]podTemplate {
	all := map[string][]podTemplate{}
	add := func(of Ref, k *Kind, spec Object) {
		all[of.Namespace] = append(all[of.Namespace], podTemplate{
			of, stringsOf(value[Object](spec, k.podLabels()...)), value[Object](value[Object](spec, k.pods...), "spec"),
		})
	}
	for _, ref := range x.Grids() {
		g := x.grids[ref]
		if !g.kind.PerUnit || g.deleting || !in[ref.Namespace] {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(g.templates)) {
			add(ref, g.kind, g.templates[name].alike.open())
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(x.children), compareRefs) {
		c := x.children[ref]
		if _, owned := gridOf(c); c.kind.PerUnit && !owned && in[ref.Namespace] {
			add(ref, c.kind, c.whole())
		}
	}
	return all
}

// givenByKubernetes are labels of pods that no template has.
var givenByKubernetes = []string{
	appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel, templateHash,
}

// lacks are the terms of a selector that the pods have no label for.
func (p *podTemplate) lacks(selector map[string]string) (terms []string) {
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if p.labels[key] != selector[key] && !slices.Contains(givenByKubernetes, key) {
			terms = append(terms, key)
		}
	}
	return terms
}

func (x *Index) unanswered(g *tracked, pods []podTemplate) []topology.Problem {
	written := g.templates[g.fallback()]
	if written == nil || len(pods) == 0 && x.part {
		return nil // which is a problem of its own; or whose pods are meant is not here
	}
	spec := written.alike.open()
	selector := stringsOf(value[Object](spec, "selector"))
	if len(selector) == 0 || value[string](spec, "type") == "ExternalName" {
		return nil // its endpoints are somebody's own
	}
	selected := slices.DeleteFunc(slices.Clone(pods), func(p podTemplate) bool { return len(p.lacks(selector)) > 0 })
	if len(selected) > 0 {
		return g.portless(value[[]any](spec, "ports"), selected)
	}
	others := "pods of others"
	if x.part {
		others = "pods that are not here"
	}
	return []topology.Problem{g.problem("spec.template.selector", "selects %s, and no grid's pods of namespace %s have such labels: unless %s have them, the Service refuses every client; %s",
		termsOf(selector), g.ref.Namespace, others, g.meant(selector, pods))}
}

func termsOf(labels map[string]string) string {
	var terms []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		terms = append(terms, key+"="+labels[key])
	}
	return Short(terms)
}

// meant says which labels a selector may be to have: those of the pods that lack the
// fewest of its terms, and of as many those of the grid of its name.
func (g *grid) meant(selector map[string]string, pods []podTemplate) string {
	if len(pods) == 0 {
		return "there is no such grid at all: add it, or see that both are of one namespace"
	}
	rank := func(p podTemplate) (n int) {
		for _, key := range p.lacks(selector) {
			if n += 2; p.nearest(key, selector[key]) != "" {
				n--
			}
		}
		if n *= 2; p.of.Name != g.ref.Name {
			n++
		}
		return n
	}
	best := slices.MinFunc(pods, func(a, b podTemplate) int { return cmp.Compare(rank(a), rank(b)) })
	var terms []string
	for _, key := range best.lacks(selector) {
		if term := best.nearest(key, selector[key]); term != "" {
			terms = append(terms, term)
		}
	}
	if len(terms) == len(best.lacks(selector)) {
		return fmt.Sprintf("did you mean %s, as the pods of %s have?", strings.Join(terms, ", "), best.of)
	}
	if len(best.labels) == 0 {
		return fmt.Sprintf("give the pods of %s such labels", best.of)
	}
	return fmt.Sprintf("write labels that pods have: those of %s have %s", best.of, termsOf(best.labels))
}

// nearest is the label that a term may be meant to be, by its value or its key; or "".
func (p *podTemplate) nearest(key, word string) string {
	if has, ok := p.labels[key]; ok {
		if near.Word(word, []string{has}) == "" {
			return ""
		}
		return key + "=" + has
	}
	var keys []string // of the same value
	for own, has := range p.labels {
		if has == word {
			keys = append(keys, own)
		}
	}
	if meant := near.Word(key, keys); meant != "" {
		return meant + "=" + word
	}
	return ""
}

// portless are the ports of a Service whose targetPort is a name that no container of the
// pods has: their endpoints have no such port.
func (g *grid) portless(ports []any, pods []podTemplate) (list []topology.Problem) {
	for i, item := range ports {
		port, _ := item.(Object)
		name, protocol := value[string](port, "targetPort"), cmp.Or(value[string](port, "protocol"), "TCP")
		if name == "" {
			continue
		}
		var named []string
		for _, p := range pods {
			named = append(named, p.portNames(protocol)...)
		}
		if slices.Contains(named, name) {
			continue
		}
		slices.Sort(named)
		cure := fmt.Sprintf("name a port of its containers so (%s), or write its number", protocol)
		if meant := near.Word(name, named); meant != "" {
			cure = "did you mean " + meant + "?"
		} else if named = slices.Compact(named); len(named) > 0 {
			cure = fmt.Sprintf("write a name that one has (%s), or a number", Short(named))
		}
		list = append(list, g.problem(fmt.Sprintf("spec.template.ports[%d].targetPort", i), "names port %s, which no container of the pods that it selects has (%s): %d of the Service refuses every client; %s",
			name, pods[0].of, integer(port, 0, "port"), cure))
	}
	return list
}

// portNames are the names of the ports that pods have, by a protocol, as Kubernetes looks
// for them: also those of sidecars.
func (p *podTemplate) portNames(protocol string) (list []string) {
	sidecars := slices.DeleteFunc(slices.Clone(value[[]any](p.pod, "initContainers")), func(c any) bool {
		container, _ := c.(Object)
		return value[string](container, "restartPolicy") != "Always"
	})
	for _, item := range slices.Concat(value[[]any](p.pod, "containers"), sidecars) {
		container, _ := item.(Object)
		for _, item := range value[[]any](container, "ports") {
			port, _ := item.(Object)
			if name := value[string](port, "name"); name != "" && cmp.Or(value[string](port, "protocol"), "TCP") == protocol {
				list = append(list, name)
			}
		}
	}
	return list
}
